/* SPDX-License-Identifier: Apache-2.0 */
/* A program that took its user's locale, with decimal commas: settings are read and logs written as before. */
#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/number.h"
#include "core/data/spec.h"
#include "core/job/job.h"
#include "tests/support/run.h"

static char folder[64];

static bool has_comma(void)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    return !strcmp(text, "0,5");
}

/* A locale of that kind: one that is installed, else one that is made here. */
static bool take_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "it_IT.UTF-8", "es_ES.UTF-8", "ru_RU.UTF-8"};
    char command[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) && has_comma())
            return true;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    if (system(command) == -1)
        return false;
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") && has_comma();
}

static void read_whole(const char *name, char *text, size_t n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, n - 1, f)] = 0;
    fclose(f);
}

static void check_numbers(void)
{
    char *end;
    double std[1];
    const double preset = 1;
    yk_error err = YK_ERROR_INIT;
    yk__spec spec;
    ck_assert(yk__number_read("0.25,", &end) == 0.25 && *end == ',');
    ck_assert_str_eq(yk__number_text(0.695, 9).text, "0.695");
    ck_assert_msg(!yk__spec_parse("idx:/x,std=0.5", &spec, &err), "%s", err.text);
    ck_assert_msg(!yk__spec_reals(&spec, "std", &preset, 1, std, &err), "%s", err.text);
    ck_assert(std[0] == 0.5);
    yk__spec_free(&spec);
    ck_assert(has_comma()); /* the program's own numbers stay as it wants them */
}

/* Settings from a string and from JSON, a schedule's, a memory limit, a log, a model and a checkpoint. */
static void check_job(void)
{
    char path[160], text[4096];
    setenv("YOKE_MEMORY_LIMIT", "1.5G", 1);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_model *m = yk_model_new(job, "mlp", "input_size=4,hidden=3,num_labels=2,dropout=0.25", NULL);
    snprintf(path, sizeof path, "%s/model", folder);
    yk_model_save(m, path);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.5});
    yk_schedule(opt, &(yk_sched_config){.name = "StepLR", .params = "step_size=1,gamma=0.5"});
    snprintf(path, sizeof path, "%s/log", folder);
    yk_track_open(job, path);
    yk_t w = yk_param_find(job, "fc1.bias");
    yk_t loss = yk_shift(yk_sum(yk_mul(w, w), 1, false), 0.695f);
    yk_track(job, "loss", loss);
    yk_backward(loss);
    yk_step(opt);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    yk_save(job, path);
    yk_load(job, path);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
    read_whole("model/config.json", text, sizeof text);
    ck_assert_msg(strstr(text, "\"dropout\": 0.25"), "%s", text);
    read_whole("log", text, sizeof text);
    ck_assert_msg(strstr(text, "\"loss\": 0.") != NULL, "%s", text);
    job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    snprintf(path, sizeof path, "%s/model", folder);
    yk_model_from_pretrained(job, path, NULL, NULL);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

START_TEST(decimal_commas)
{
    char command[128];
    strcpy(folder, "/tmp/yoke-locale-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    if (take_locale()) {
        check_numbers();
        check_job();
    } else {
        printf("# skipped: no locale with decimal commas is installed, and localedef makes none\n");
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("locale");
    tcase_add_test(t, decimal_commas);
    return suite_run("job_locale", t);
}
