/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows over pixels of one vector each, a plane in each lane: n outputs of a row whose windows are cut alike, `step`
 * words apart in the image. Terms are taken in the order of the window's rows, so that a lane gives what a loop over its
 * plane would. Included after vec.h.
 */

/* the first of the largest, a NaN if there is one: its value, and its number in the window */
V_INLINE vf pool_best(const float *x, const cpu_window *w, vi *at)
{
    vf m = v_load(x);
    vi t = {0}, best = {0};
    for (size_t r = 0; r < w->rows; r++)
        for (size_t k = 0; k < w->cols; k++, t += 1) {
            vf v = v_load(x + r * w->down + k * w->right);
            vi take = (v > m) | ((v != v) & (m == m));
            m = v_sel(take, v, m);
            if (at)
                best = v_seli(take, t, best);
        }
    if (at)
        *at = best;
    return m;
}

static void pool_max(float *y, const float *x, const cpu_window *w, size_t n)
{
    for (; n; n--, x += w->step, y += CPU_VW)
        v_store(y, pool_best(x, w, NULL));
}

static void pool_max_bwd(float *sum, const float *x, const float *g, const cpu_window *w, size_t n)
{
    for (; n; n--, x += w->step, sum += w->step, g += CPU_VW) {
        vi at, t = {0};
        vf v = v_load(g);
        pool_best(x, w, &at);
        for (size_t r = 0; r < w->rows; r++)
            for (size_t k = 0; k < w->cols; k++, t += 1) {
                float *to = sum + r * w->down + k * w->right;
                v_store(to, v_load(to) + (vf)((vi)v & (at == t)));
            }
    }
}

static void pool_avg(float *y, const float *x, const cpu_window *w, size_t n)
{
    for (; n; n--, x += w->step, y += CPU_VW) {
        vf s = {0};
        for (size_t r = 0; r < w->rows; r++)
            for (size_t k = 0; k < w->cols; k++)
                s += v_load(x + r * w->down + k * w->right);
        v_store(y, s / v_set1(w->count));
    }
}

static void pool_avg_bwd(float *sum, const float *g, const cpu_window *w, size_t n)
{
    for (; n; n--, sum += w->step, g += CPU_VW) {
        vf v = v_load(g) / v_set1(w->count);
        for (size_t r = 0; r < w->rows; r++)
            for (size_t k = 0; k < w->cols; k++) {
                float *to = sum + r * w->down + k * w->right;
                v_store(to, v_load(to) + v);
            }
    }
}

static const cpu_windows pool_kernels = {pool_max, pool_max_bwd, pool_avg, pool_avg_bwd};
