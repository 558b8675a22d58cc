/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sinh on the device that is named, against the C library's in double: values, then weights that a few steps train.
 */
#include <math.h>
#include <stdio.h>

#include <yoke/yoke.h>

enum { N = 402, FEW = 6, STEPS = 12 };

static int values_differ(yk_job *job)
{
    const int64_t dim[1] = {N};
    float x[N], y[N];
    int wrong = 0;
    for (int i = 0; i < N; i++)
        x[i] = i < 201 ? (float)(i - 100) * 0.893f : powf(10.0f, -(float)(i - 201) / 6.0f) * (i & 1 ? 1.0f : -1.0f);
    x[0] = -INFINITY, x[1] = NAN, x[200] = INFINITY, x[100] = -0.0f;
    yk_read(yk_sinh(yk_input(job, YK_F32, 1, dim, x)), y, sizeof y);
    for (int i = 0; i < N; i++) {
        const double want = sinh((double)x[i]);
        const int good = isfinite(want) ? fabs((double)y[i] - want) <= 2e-6 * fabs(want) + 1e-37
                         : isnan(want)  ? isnan(y[i])
                                        : (double)y[i] == want;
        if (!good && wrong++ < 5)
            printf("# sinh(%.9g): got %.9g, expected %.9g\n", (double)x[i], (double)y[i], want);
    }
    return wrong;
}

/* loss = the mean of (sinh(w x) - t)^2, w by plain gradient descent: dw = 2 (sinh(w x) - t) cosh(w x) x / n. */
static int training_differs(yk_job *job)
{
    static const float x[FEW] = {-1.5f, -0.4f, 1e-3f, 0.3f, 0.9f, 2.1f}, t[FEW] = {-1, -0.2f, 0, 0.2f, 0.5f, 1.25f};
    const int64_t dim[1] = {FEW};
    const double rate = 0.02;
    double want[FEW];
    float got[FEW];
    int wrong = 0;
    yk_t w = yk_param(job, "w", 1, dim, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = rate});
    for (int i = 0; i < FEW; i++)
        want[i] = 1;
    for (int step = 0; step < STEPS; step++) {
        yk_t off = yk_sub(yk_sinh(yk_mul(yk_input(job, YK_F32, 1, dim, x), w)), yk_input(job, YK_F32, 1, dim, t));
        yk_backward(yk_mean(yk_mul(off, off), 1, false));
        yk_step(opt);
        for (int i = 0; i < FEW; i++)
            want[i] -= rate * 2 * (sinh(want[i] * (double)x[i]) - (double)t[i]) * cosh(want[i] * (double)x[i]) * (double)x[i] / FEW;
    }
    yk_param_read(w, got, FEW);
    for (int i = 0; i < FEW; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-5) && ++wrong)
            printf("# w[%d]: got %.9g, expected %.9g\n", i, (double)got[i], want[i]);
    return wrong;
}

int main(int argc, char **argv)
{
    yk_job *job = yk_open(&(yk_config){.devices = argc > 1 ? argv[1] : "cpu:0", .quiet = true});
    const int wrong = yk_ok(job) ? values_differ(job) + training_differs(job) : 0;
    if (!yk_ok(job))
        printf("# %s\n", yk_error_text(job));
    const int failed = wrong || !yk_ok(job);
    return yk_close(job) || failed;
}
