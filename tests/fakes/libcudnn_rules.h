/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes the fake cuDNN's descriptors have. */
#ifndef YOKE_TESTS_FAKES_LIBCUDNN_RULES_H
#define YOKE_TESTS_FAKES_LIBCUDNN_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_NO_LINK = -1, FAKE_OPERATION = -2 }; /* targets of a rule's links besides a type of descriptors: any operation */

/* An attribute that may be set, and its number of values; to: the kind of descriptor that it links to. */
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
