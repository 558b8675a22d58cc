/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerSGD over a rank's block of gradients (powersgd.h): two thin factors of each matrix travel instead of the matrix. The file chooses
 * the matrices, makes the two sums over members, and keeps the error of each for the next step.
 *
 * ways/power.c calls yk__power_reduce at the end of each window, on all members, in the step thread. Afterwards each member's block holds
 * the same sums, bit for bit. Other callers drop the factors when members, owners or parameters change.
 */
#include "core/run/ways/powersgd.h"

#include <string.h>

#include "core/base/mem.h"

typedef struct yk__power {
    float *error;        /* [n_trained], as the block of gradients */
    float *left, *right; /* the factors of all matrices, one after the other; uncompressed gradients stand behind left's */
    uint64_t n_left, n_right, n_plain;
} yk__power;

void yk__power_drop(yk__params *p)
{
    if (!p->power)
        return;
    yk__free(p->power->error);
    yk__free(p->power->left);
    yk__free(p->power->right);
    yk__free(p->power);
    p->power = NULL;
}

void yk__power_scale(yk__params *p, float factor)
{
    for (uint64_t i = 0; p->power && i < p->n_trained; i++)
        p->power->error[i] *= factor;
}

/* False if the gradient goes as it is. */
static bool find_shape(const yk__params *p, const yk__param *q, yk__power_shape *shape)
{
    *shape = (yk__power_shape){q->rows, q->rows ? q->n / q->rows : 0, p->power_rank};
    return q->rows > 1 && 2 * p->power_rank * (shape->rows + shape->cols) < q->n;
}

static void count_numbers(const yk__params *p, yk__power *power)
{
    for (size_t i = 0; i < p->n_param; i++) {
        yk__power_shape shape;
        const bool factored = p->param[i].trained && find_shape(p, &p->param[i], &shape);
        power->n_left += factored ? shape.rows * shape.rank : 0;
        power->n_right += factored ? shape.cols * shape.rank : 0;
        power->n_plain += p->param[i].trained && !factored ? p->param[i].n : 0;
    }
}

uint64_t yk__power_bytes(const yk__params *p)
{
    yk__power power = {0};
    if (!p->power_rank || p->exchange->world == 1 || !p->laid_out)
        return 0;
    count_numbers(p, &power);
    return (p->n_trained + power.n_left + power.n_plain + 1 + power.n_right + 1) * sizeof(float);
}

static yk_status power_new(yk__params *p, yk_error *err)
{
    yk__power *power = p->power = yk__calloc(1, sizeof *power);
    if (!power)
        return yk__fail_mem(err, sizeof *power, "PowerSGD");
    count_numbers(p, power);
    power->error = yk__calloc(p->n_trained, sizeof *power->error);
    power->left = yk__calloc(power->n_left + power->n_plain + 1, sizeof *power->left);
    power->right = yk__calloc(power->n_right + 1, sizeof *power->right);
    if (power->error && power->left && power->right)
        return YK_OK;
    yk__fail_mem(err, (p->n_trained + power->n_left + power->n_plain + power->n_right) * sizeof(float), "PowerSGD");
    yk__power_drop(p);
    return err->status;
}

/* One parameter's place in each of the vectors. */
typedef struct place {
    yk__power_shape shape;
    bool factored;
    uint32_t number;
    float *grad, *error, *left, *right, *plain;
    uint64_t n;
} place;

/* Calls visit for each trained parameter, in the order of numbers. */
static void visit_params(yk__params *p, void (*visit)(const place *at, float factor), float factor)
{
    yk__power *power = p->power;
    float *left = power->left, *right = power->right, *plain = power->left + power->n_left;
    for (size_t i = 0; i < p->n_param; i++) {
        const yk__param *q = &p->param[i];
        const yk__bucket *b = &p->bucket[q->bucket];
        place at = {.number = (uint32_t)i, .left = left, .right = right, .plain = plain, .n = q->n};
        if (!q->trained)
            continue;
        at.grad = b->shared + q->at;
        at.error = power->error + b->shared_at + q->at;
        at.factored = find_shape(p, q, &at.shape);
        left += at.factored ? at.shape.rows * at.shape.rank : 0;
        right += at.factored ? at.shape.cols * at.shape.rank : 0;
        plain += at.factored ? 0 : q->n;
        visit(&at, factor);
    }
}

static void make_left(const place *at, float factor)
{
    (void)factor;
    if (!at->factored) {
        memcpy(at->plain, at->grad, at->n * sizeof *at->plain);
        return;
    }
    for (uint64_t i = 0; i < at->n; i++)
        at->grad[i] += at->error[i];
    yk__power_fill(&at->shape, at->number, at->right);
    yk__power_left(&at->shape, at->grad, at->right, at->left);
}

static void make_right(const place *at, float factor)
{
    (void)factor;
    if (!at->factored)
        return;
    yk__power_orthonormal(&at->shape, at->left);
    yk__power_right(&at->shape, at->grad, at->left, at->right);
}

/* factor: this rank's share of the sum. */
static void make_sums(const place *at, float factor)
{
    if (at->factored)
        yk__power_restore(&at->shape, at->left, at->right, factor, at->grad, at->error);
    else
        memcpy(at->grad, at->plain, at->n * sizeof *at->grad);
}

yk_status yk__power_reduce(yk__params *p, yk_error *err)
{
    const uint32_t members = yk__exchange_members(p->exchange);
    if (!p->power && power_new(p, err))
        return err->status;
    visit_params(p, make_left, 0.0f);
    if (yk__exchange_sum_vector(p->exchange, p->power->left, p->power->n_left + p->power->n_plain, err))
        return err->status;
    visit_params(p, make_right, 0.0f);
    if (yk__exchange_sum_vector(p->exchange, p->power->right, p->power->n_right, err))
        return err->status;
    visit_params(p, make_sums, 1.0f / (float)members);
    for (uint32_t i = 0; i < p->n_bucket; i++)
        yk__exact_squares(&p->squares, p->bucket[i].shared + p->bucket[i].begin, p->bucket[i].end - p->bucket[i].begin);
    return YK_OK;
}
