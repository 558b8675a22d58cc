/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one reader of words that stand for a choice: options, files of settings and configuration structs ask it. Case does not count, and
 * '-' and '_' are the same. Thread-safe.
 *
 * A list has its words between bars, each with further spellings behind '=': "fp32=float32=no|bf16=bfloat16". The first spelling of a word
 * is the canonical one.
 */
#ifndef YOKE_CORE_BASE_WORD_H
#define YOKE_CORE_BASE_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* Formats to compute in, by their names here, in PyTorch and in Accelerate. */
#define YK__PRECISION_WORDS "fp32=float32=float=no=false=f32|bf16=bfloat16|fp16=float16=half=f16|fp8=f8e4m3"
enum { YK__PRECISIONS = 4 }; /* words of the list */

enum { YK__WORD_BYTES = 64 };
typedef struct yk__word {
    char text[YK__WORD_BYTES];
} yk__word;

/* True if `given`, of n characters, is the word of `length` characters. */
bool yk__word_is(const char *word, size_t length, const char *given, size_t n);
/* Index of the word in the list that `given`, of n characters, spells; -1 if absent. */
int yk__word_find(const char *list, const char *given, size_t n);
/* The canonical spelling of a word of the list by its index; "" if absent. */
yk__word yk__word_text(const char *list, int index);

#endif
