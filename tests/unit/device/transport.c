/* SPDX-License-Identifier: Apache-2.0 */
/* Loading transports: by name and by path; a file that is none, or that another user could have made, is refused. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/device/transport_load.h"
#include "tests/support/run.h"

static const yk_transport *table;
static yk_error err;
static char folder[] = "/tmp/yoke-transport-XXXXXX";

static void make_folder(void)
{
    memset(&err, 0, sizeof err);
    table = NULL;
    strcpy(folder, "/tmp/yoke-transport-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static const char *built_path(const char *file)
{
    static char path[500];
    snprintf(path, sizeof path, "%s/%s", getenv("YOKE_PLUGIN_DIR"), file);
    return path;
}

static void assert_refused(const char *name, yk_status status, const char *text)
{
    ck_assert_int_eq(yk__transport_load(name, &table, &err), status);
    ck_assert_msg(strstr(err.text, text) != NULL, "\"%s\" instead of \"%s\"", err.text, text);
    ck_assert_ptr_null(table);
}

#ifdef HAVE_SODIUM
static yk_status exchange_own(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    (void)arg, (void)error;
    memcpy(all, own, bytes);
    return YK_OK;
}

START_TEST(sock_is_found_by_name_and_opens)
{
    const uint64_t host[1] = {0};
    const yk_tr_config c = {.size = sizeof c, .ranks = 1, .host = host, .name = "test", .exchange = exchange_own,
                            .secret = (const uint8_t *)"0123456789abcdef", .secret_bytes = 16};
    yk_tr *tr = NULL;
    yk_tr_error error = {""};
    char *names = yk__transport_names();
    ck_assert_ptr_nonnull(strstr(names, "sock"));
    yk__free(names);
    ck_assert_msg(!yk__transport_load("sock", &table, &err), "%s", err.text);
    ck_assert_str_eq(table->name, "sock");
    ck_assert_msg(!table->open(&c, &tr, &error), "%s", error.text);
    table->close(tr);
}
END_TEST

START_TEST(a_file_that_others_can_write_is_refused)
{
    char command[700], path[100];
    snprintf(path, sizeof path, "%s/transport_sock.so", folder);
    snprintf(command, sizeof command, "cp %s %s", built_path("transport_sock.so"), path);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(chmod(path, 0666), 0);
    assert_refused(path, YK_E_ABI, "other users can write this file");
    memset(&err, 0, sizeof err);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_msg(!yk__transport_load(path, &table, &err), "%s", err.text);
}
END_TEST
#endif

START_TEST(an_unknown_name_is_an_error_that_lists_the_others)
{
    assert_refused("carrier-pigeon", YK_E_ARG, "there is no transport \"carrier-pigeon\" in ");
}
END_TEST

START_TEST(a_plugin_of_a_device_is_no_transport)
{
    assert_refused(built_path("yoke_cpu.so"), YK_E_ABI, "it has no symbol yk_transport_query, so it is no transport for yoke");
}
END_TEST

START_TEST(a_path_that_is_not_there_is_an_error)
{
    assert_refused("/nowhere/transport_sock.so", YK_E_ARG, "transport /nowhere/transport_sock.so: No such file or directory");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
#ifdef HAVE_SODIUM
        sock_is_found_by_name_and_opens, a_file_that_others_can_write_is_refused,
#endif
        an_unknown_name_is_an_error_that_lists_the_others, a_plugin_of_a_device_is_no_transport, a_path_that_is_not_there_is_an_error,
    };
    return suite_run_all("transport", tests, sizeof tests / sizeof *tests, make_folder, remove_folder);
}
