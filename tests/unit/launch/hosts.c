/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts: the meaning of each form, and refused ones. */
#include "config.h"

#include "core/launch/hosts.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/run.h"

/* "a:2=cpu:0 b:0=-": names, ranks, devices. */
static void hosts_write(const yk__hosts *hosts, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < hosts->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s:%u=%s", i ? ";" : "", hosts->host[i].name, hosts->host[i].ranks,
                                 hosts->host[i].devices ? hosts->host[i].devices : "-");
}

static void assert_hosts(yk__hosts *hosts, const yk_error *err, const char *expected)
{
    char text[1024];
    ck_assert_msg(!err->status, "%s", err->text);
    hosts_write(hosts, text, sizeof text);
    ck_assert_str_eq(text, expected);
    yk__hosts_free(hosts);
}

START_TEST(lists_give_names_ranks_and_devices)
{
    static const char *const lists[][2] = {
        {"a", "a:0=-"},
        {"a:2,user@b.example.com,c-1:256", "a:2=-;user@b.example.com:0=-;c-1:256=-"},
        {"[fd99::1],[fe80::2%eth0]:2,[::1]=cpu:0,[::2]:3=cpu/3", "fd99::1:0=-;fe80::2%eth0:2=-;::1:0=cpu:0;::2:3=cpu/3"},
        {"a=cpu:0 opencl:*!,b:2=cpu/2", "a:0=cpu:0 opencl:*!;b:2=cpu/2"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__hosts hosts;
        yk__hosts_parse(lists[i][0], &hosts, &err);
        assert_hosts(&hosts, &err, lists[i][1]);
    }
}
END_TEST

START_TEST(lists_with_a_fault_are_refused)
{
    static const char *const lists[] = {"", "a,", "a,,b", "a:0", "a:257", "a:-1", "a:", "a:2x", "a=", "a,a:2", "-oProxyCommand=x", "a;b",
                                        "a b", "$(a)", ":2", "fd99::1", "fd99::1=cpu:0", "[fd99::1", "[fd99::1]2", "[]",
                                        "[-o]", "[a]b", "[fd99::1]:0", "a[1]", "a:99999999999999999999"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__hosts hosts;
        ck_assert_msg(yk__hosts_parse(lists[i], &hosts, &err) == YK_E_ARG, "'%s' is taken", lists[i]);
        ck_assert_uint_eq(hosts.count, 0);
    }
}
END_TEST

static yk_status file_read(const char *content, yk__hosts *hosts, yk_error *err)
{
    char path[] = "/tmp/yoke-hosts-XXXXXX";
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
    yk__hosts_read(path, hosts, err);
    unlink(path);
    return err->status;
}

START_TEST(files_have_a_host_a_line)
{
    yk_error err = YK_ERROR_INIT;
    yk__hosts hosts;
    file_read("# of the lab\n\n  a slots=4   # fast\nb:2\r\n\tc=cpu:0 cpu:1\nd\tslots=1", &hosts, &err);
    assert_hosts(&hosts, &err, "a:4=-;b:2=-;c:0=cpu:0 cpu:1;d:1=-");
    file_read("::1 slots=2\nfd99::1\tslots=3 type=cpu\n[fd99::2] slots=4\n" "a slots=2 max_slots=4\n"
              "b slots=1 max-slots=2 type=cpu\n", &hosts, &err);
    assert_hosts(&hosts, &err, "::1:2=-;fd99::1:3=cpu/3;fd99::2:4=-;a:2=-;b:1=cpu/1");
    file_read("\xef\xbb\xbf" "a slots=2\rb\r\n\rc:3\r", &hosts, &err); /* lines may end in CR, as in any text */
    assert_hosts(&hosts, &err, "a:2=-;b:0=-;c:3=-");
    char wide[3 * 4096] = "a\n#";
    memset(wide + 3, '-', 4094); /* a host's name within a comment is none */
    strcpy(wide + 3 + 4094, "b\nc\n");
    file_read(wide, &hosts, &err);
    assert_hosts(&hosts, &err, "a:0=-;c:0=-");
    ck_assert_int_eq(file_read("a\nb slots=x\n", &hosts, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "line 2"), "%s", err.text);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(file_read("# nobody\n", &hosts, &err), YK_E_ARG);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__hosts_read("/nonexistent/hosts", &hosts, &err), YK_E_ARG);
}
END_TEST

START_TEST(allocations_of_slurm_are_written_out)
{
    static const char *const lists[][3] = {
        {"n1", NULL, "n1:0=-"},
        {"n[1-3]", NULL, "n1:0=-;n2:0=-;n3:0=-"},
        {"n[08-10,2],m,k-[7]", "2(x3),1,4(x2)", "n08:2=-;n09:2=-;n10:2=-;n2:1=-;m:4=-;k-7:4=-"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__hosts hosts;
        yk__hosts_of_slurm(lists[i][0], lists[i][1], &hosts, &err);
        assert_hosts(&hosts, &err, lists[i][2]);
    }
}
END_TEST

START_TEST(allocations_that_are_none_are_refused)
{
    static const char *const lists[][2] = {{"n[1-", NULL}, {"n[1-3", NULL},     {"n[3-1]", NULL}, {"n[]", NULL},  {"n[1-99999999]", NULL},
                                           {"n[a]", NULL}, {"n[1]x", NULL},     {"n1,,n2", NULL}, {"n1", "1,"},   {"n[1-2]", "1"},
                                           {"n1", "0"},    {"n[1-2]", "2(x"}, {"n1", "x"},      {"n[1-2]", "1x1"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__hosts hosts;
        ck_assert_msg(yk__hosts_of_slurm(lists[i][0], lists[i][1], &hosts, &err), "'%s' '%s' is taken", lists[i][0],
                      lists[i][1] ? lists[i][1] : "");
        ck_assert_uint_eq(hosts.count, 0);
    }
}
END_TEST

START_TEST(ranks_asked_for_fill_a_list)
{
    static const struct {
        const char *list;
        uint32_t total, each;
        const char *expected; /* begins with '!': a part of the error */
    } cases[] = {
        {"a:2,b:4", 0, 0, "a:2=-;b:4=-"},       {"a:2,b:4,c:1", 3, 0, "a:2=-;b:1=-"},   {"a:2,b:4", 2, 0, "a:2=-"},
        {"a,b=cpu:0", 4, 0, "a:2=-;b:2=cpu:0"}, {"a:2,b:4", 0, 2, "a:2=-;b:2=-"},       {"a,b", 6, 3, "a:3=-;b:3=-"},
        {"a:2,b:4", 7, 0, "!room for 6 ranks"}, {"a,b", 3, 0, "!no even part"},         {"a:2,b", 2, 0, "!of 2 hosts 1 have a number"},
        {"a:2,b:4", 0, 3, "!host 'a' has 2"},   {"a,b", 3, 2, "!have another number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__hosts hosts;
        ck_assert_int_eq(yk__hosts_parse(cases[i].list, &hosts, &err), YK_OK);
        yk__hosts_allot(&hosts, cases[i].total, cases[i].each, &err);
        if (*cases[i].expected == '!')
            ck_assert_msg(err.status == YK_E_ARG && strstr(err.text, cases[i].expected + 1), "%s: %s", cases[i].list, err.text);
        else
            assert_hosts(&hosts, &err, cases[i].expected);
        yk__hosts_free(&hosts);
    }
}
END_TEST

static int run_suite_hosts_lists(void)
{
    TCase *t = tcase_create("lists");
    tcase_add_test(t, lists_give_names_ranks_and_devices);
    tcase_add_test(t, lists_with_a_fault_are_refused);
    tcase_add_test(t, files_have_a_host_a_line);
    tcase_add_test(t, allocations_of_slurm_are_written_out);
    tcase_add_test(t, allocations_that_are_none_are_refused);
    tcase_add_test(t, ranks_asked_for_fill_a_list);
    return suite_run("host lists", t);
}

int main(void)
{
    return run_suite_hosts_lists();
}
