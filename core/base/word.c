/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks words up in lists of them, "fp32|bf16|fp16" or "host=cpu" with equal meanings. The readers of options and settings call it. Pure;
 * any thread.
 */
#include "core/base/word.h"

#include <ctype.h>
#include <string.h>

static char letter_fold(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

bool yk__word_is(const char *word, size_t length, const char *given, size_t n)
{
    size_t i = 0;
    while (i < n && i < length && letter_fold(word[i]) == letter_fold(given[i]))
        i++;
    return i == n && i == length;
}

int yk__word_find(const char *list, const char *given, size_t n)
{
    int index = 0;
    while (*list) {
        const size_t length = strcspn(list, "=|");
        if (yk__word_is(list, length, given, n))
            return index;
        index += list[length] == '|';
        list += length + (list[length] != 0);
    }
    return -1;
}

yk__word yk__word_text(const char *list, int index)
{
    yk__word word = {""};
    for (; index > 0 && *list; index--) {
        list += strcspn(list, "|");
        list += *list == '|';
    }
    const size_t n = strcspn(list, "=|");
    if (index == 0 && n < sizeof word.text)
        memcpy(word.text, list, n);
    return word;
}
