/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes the fake cuDNN's descriptors have. */
#ifndef YOKE_TESTS_FAKES_LIBCUDNN_RULES_H
#define YOKE_TESTS_FAKES_LIBCUDNN_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_NO_LINK = -1, FAKE_OPERATION = -2 }; /* what a rule's links lead to, beside a type of descriptors: to any operation */

/* An attribute that may be set, and how often its value is there; to: what kind of descriptor it leads to. */
typedef struct fake_rule {
    int of, name, type;
    int64_t least, most;
    int to;
    bool is_needed;
} fake_rule;

extern const fake_rule fake_rules[];
extern const int fake_rule_count;
const fake_rule *fake_rule_find(int of, int name); /* NULL: there is none */

#endif
