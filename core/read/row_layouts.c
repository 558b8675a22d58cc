/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of the keys by which other trainers' rows are known (messages, instruction and output, and so on). Each has an advice, the end
 * of the error. rows.c asks it about a row without the asked columns, kind_rows.c's spec (core/data/spec.c) about a pair of texts.
 * Constant data; any thread.
 */
#include "core/read/row_layouts.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define KEYS 2
#define WHOLE "write each row as one text into a file, and train with --data text:FILE"
#define CHAT                                                                                                                             \
    "a chat template is not applied here: tokenizer.apply_chat_template(messages, tokenize=False) of transformers makes texts; " WHOLE

#define PAIR "a row has one text here, which text=COLUMN names: choose a column, or join both in the file"

/* The first one all of whose keys a row has. */
static const struct row_layout {
    const char *key[KEYS], *advice;
} layouts[] = {
    {{"messages"}, ": chats, as TRL and axolotl write them; " CHAT},
    {{"conversations"}, ": chats, as ShareGPT writes them; " CHAT},
    {{"chosen", "rejected"}, ": preferences; DPO, ORPO and reward models are not built; to train on the chosen texts alone " WHOLE},
    {{"prompt", "completion"}, ": prompts with completions, and the loss leaves no prompt out here; " WHOLE},
    {{"prompt", "response"}, ": prompts with responses, and the loss leaves no prompt out here; " WHOLE},
    {{"instruction", "output"}, ": instructions, as Alpaca writes them, and the loss leaves none out here; " WHOLE},
    {{"instruction", "response"}, ": instructions, as Dolly writes them, and the loss leaves none out here; " WHOLE},
    {{"question", "answer"}, ": questions with answers, and the loss leaves no question out here; " WHOLE},
    {{"question", "answers"}, ": questions with answers in a context; extractive answers are not built"},
    {{"sentence1", "sentence2"}, ": pairs of texts; " PAIR},
    {{"premise", "hypothesis"}, ": pairs of texts; " PAIR},
    {{"question1", "question2"}, ": pairs of texts; " PAIR},
    {{"question", "sentence"}, ": pairs of texts; " PAIR},
    {{"query", "passage"}, ": pairs of texts; " PAIR},
    {{"anchor", "positive"}, ": pairs of texts; " PAIR},
    {{"text_a", "text_b"}, ": pairs of texts; " PAIR},
    {{"text1", "text2"}, ": pairs of texts; " PAIR},
    {{"tokens"}, ": words with tags; the classification of tokens is not built"},
};

/* True if the name joins the names of two columns with '+'. */
static bool joins_columns(bool (*has)(const void *row, const char *key), const void *row, const char *name)
{
    char first[256];
    const char *plus = strchr(name, '+');
    snprintf(first, sizeof first, "%.*s", plus ? (int)(plus - name) : 0, name);
    return plus && has(row, first) && has(row, plus + 1);
}

const char *yk__row_pair_advice(const char *key)
{
    static const char *const keys[] = {"text_pair", "text-pair", "pair", "text2", "text_b", "sentence1", "sentence2", "sentence1_key",
                                       "sentence2_key", "premise", "hypothesis", "question1", "question2"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!strcmp(keys[i], key))
            return PAIR;
    return NULL;
}

const char *yk__row_layout_advice(bool (*has)(const void *row, const char *key), const void *row, size_t keys, const char *name)
{
    if (joins_columns(has, row, name))
        return ": " PAIR;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        bool all = true;
        for (int k = 0; k < KEYS && layouts[i].key[k]; k++)
            all = all && has(row, layouts[i].key[k]);
        if (all)
            return layouts[i].advice;
    }
    if (keys == 1 && has(row, "text")) /* another key could be the label */
        return ": texts without labels; for a language model " WHOLE;
    return ": text=NAME and label=NAME behind the file's name, with commas, name other ones";
}
