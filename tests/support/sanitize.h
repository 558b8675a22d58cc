/* SPDX-License-Identifier: Apache-2.0 */
/* Which sanitizer a test is built with, for what makes no sense under it or takes minutes there. */
#ifndef YOKE_TESTS_SUPPORT_SANITIZE_H
#define YOKE_TESTS_SUPPORT_SANITIZE_H

#if defined(__has_feature)
#define TEST_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TEST_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer)
#define TEST_UNDER_ASAN 1
#else
#define TEST_UNDER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
#define TEST_UNDER_TSAN 1
#else
#define TEST_UNDER_TSAN 0
#endif

/* Loops of a test or a fake over arrays of its own: in full speed, not looked at by ASan and UBSan, as they take most of the time there.
 * TEST_LONE_LOOPS: of arrays that one thread alone has, not looked at by TSan either. */
#if defined(__GNUC__) && !defined(__clang__)
#define TEST_LOOPS __attribute__((optimize("O3"), no_sanitize("address", "undefined")))
#define TEST_LONE_LOOPS __attribute__((optimize("O3"), no_sanitize("address", "undefined", "thread")))
#else
#define TEST_LOOPS
#define TEST_LONE_LOOPS
#endif

#endif
