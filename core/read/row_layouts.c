/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of the keys by which other trainers' rows are known (messages, instruction and output, and so on). Each has an advice, the end of
 * the error. rows.c asks it about a row without the asked columns.
 */
#include "core/read/row_layouts.h"

#include <stddef.h>

#define KEYS 2
#define WHOLE "write each row as one text into a file, and train with --data text:FILE"
#define CHAT                                                                                                                             \
    "a chat template is not applied here: tokenizer.apply_chat_template(messages, tokenize=False) of transformers makes texts; " WHOLE

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
    {{"tokens"}, ": words with tags; the classification of tokens is not built"},
};

const char *yk__row_layout_advice(bool (*has)(const void *row, const char *key), const void *row, size_t keys)
{
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
