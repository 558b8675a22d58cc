/* SPDX-License-Identifier: Apache-2.0 */
/* The MAC of data: the key of a number is RFC 8439's, pieces make the same MAC as the whole, and all of what goes in changes it. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "core/net/mac.h"
#include "tests/support/run.h"

static uint8_t key[YK__AUTH_BYTES], data[300], whole[YK__MAC_BYTES], other[YK__MAC_BYTES];

static void make_input(void)
{
    yk_error err = YK_ERROR_INIT;
    ck_assert(!yk__auth_init(&err));
    for (uint32_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(0x80 + i);
    for (uint32_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 5);
    yk__mac_of(key, 9, data, sizeof data, whole);
}

/* RFC 8439, 2.6.2, whose nonce is four zeros and then this number; Poly1305 of nothing is the second half of its key. */
START_TEST(the_key_of_a_number_is_the_standards)
{
    static const uint8_t half[YK__MAC_BYTES] = {0xa8, 0x33, 0xb6, 0x37, 0xe3, 0xfd, 0x0d, 0xa5,
                                                0x08, 0xdb, 0xb8, 0xe2, 0xfd, 0xd1, 0xa6, 0x46};
    yk__mac_of(key, 0x0706050403020100u, data, 0, other);
    ck_assert_mem_eq(other, half, sizeof half);
}
END_TEST

START_TEST(pieces_make_the_mac_of_the_whole)
{
    yk__mac mac;
    yk__mac_begin(&mac, key, 9);
    yk__mac_add(&mac, data, 7);
    yk__mac_add(&mac, data + 7, 200);
    yk__mac_add(&mac, data + 207, sizeof data - 207);
    yk__mac_end(&mac, other);
    ck_assert_mem_eq(other, whole, sizeof whole);
}
END_TEST

START_TEST(number_key_and_bytes_are_in_it)
{
    yk__mac_of(key, 10, data, sizeof data, other);
    ck_assert_mem_ne(other, whole, sizeof whole);
    data[299] ^= 1;
    yk__mac_of(key, 9, data, sizeof data, other);
    ck_assert_mem_ne(other, whole, sizeof whole);
    data[299] ^= 1;
    key[31] ^= 1;
    yk__mac_of(key, 9, data, sizeof data, other);
    ck_assert_mem_ne(other, whole, sizeof whole);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        the_key_of_a_number_is_the_standards, pieces_make_the_mac_of_the_whole, number_key_and_bytes_are_in_it,
    };
    return suite_run_all("mac", tests, sizeof tests / sizeof *tests, make_input, NULL);
}
