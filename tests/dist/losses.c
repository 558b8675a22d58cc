/* SPDX-License-Identifier: Apache-2.0 */
/* The losses of losses.h. */
#include "losses.h"

#include <math.h>

/* ---- The rows and the first weights ---- */


float x_of(int row, int k)
{
    return (float)sin(row * 1.3 + k * 2.1 + 0.4);
}

float weight_of(int row)
{
    return 0.5f + 0.25f * (float)row;
}

int label_of(int row)
{
    return (row * 3 + 1) % MID;
}

float start_of(int i)
{
    return 0.6f * (float)cos(i * 0.9 + 0.3);
}

static const int64_t flat_all[1] = {-1};

static yk_t sum_all(yk_t v)
{
    return yk_sum(yk_reshape(v, 1, flat_all), 1, false);
}

static yk_t square_of(yk_t v)
{
    return yk_mul(v, v);
}

static yk_t loss_each(const step *s)
{
    return yk_cross_entropy_with(s->h, s->y, &(yk_cross_entropy_config){.reduction = YK_EACH});
}

static yk_t weight_penalty(const step *s)
{
    return yk_scale(sum_all(square_of(s->w)), 0.05f);
}

static yk_t transpose_of(yk_t v)
{
    return yk_permute(v, (const uint32_t[]){1, 0});
}

static yk_t by_matrix(const step *s)
{
    return yk_linear(s->h, s->q, YK_NO);
}

/* ---- Losses: f32 here, a few in double below ---- */

static yk_t sum_of_each(const step *s)
{
    return yk_sum(loss_each(s), 1, false);
}

static yk_t mean_of_each(const step *s)
{
    return yk_mean(loss_each(s), 1, false);
}

static yk_t mean_of_all(const step *s)
{
    return yk_mean(square_of(s->h), 3, false);
}

static yk_t sum_of_means(const step *s) /* over the columns, then the rows */
{
    return sum_all(yk_mean(square_of(s->h), 2, false));
}

static yk_t means_of_columns(const step *s)
{
    return sum_all(square_of(yk_mean(s->h, 1, false)));
}

static yk_t root_of_mean(const step *s)
{
    return yk_sqrt(yk_mean(square_of(s->h), 3, false));
}

static yk_t log_of_sum(const step *s)
{
    return yk_log(yk_shift(sum_all(square_of(s->h)), 1));
}

static yk_t loss_largest(const step *s)
{
    return yk_max(s->h, 3, false);
}

static yk_t largest_of_columns(const step *s)
{
    return sum_all(square_of(yk_max(s->h, 1, true)));
}

static yk_t smallest_of_columns(const step *s)
{
    return sum_all(yk_neg(yk_max(yk_neg(s->h), 1, false)));
}

/* In each column all rows are the largest: b, or 2 b minus b itself. */
static yk_t largest_with_ties(const step *s)
{
    float at[MID];
    for (int k = 0; k < MID; k++)
        at[k] = start_of(MID * IN + k);
    yk_t start = yk_input(s->job, YK_F32, 1, (const int64_t[]){MID}, at);
    yk_t times = yk_where(yk_less(s->weight, yk_constant(s->job, 1)), yk_constant(s->job, 1), yk_constant(s->job, 2));
    times = yk_reshape(times, 2, (const int64_t[]){s->n, 1});
    yk_t v = yk_add(yk_mul(times, s->b), yk_mul(yk_sub(yk_constant(s->job, 1), times), start));
    return sum_all(square_of(yk_max(v, 1, false)));
}

static yk_t loss_variance(const step *s)
{
    return yk_mean(square_of(yk_sub(s->h, yk_mean(s->h, 1, true))), 3, false);
}

static yk_t norms_of_columns(const step *s)
{
    return sum_all(yk_sqrt(yk_sum(square_of(s->h), 1, false)));
}

static yk_t normalised_rows(const step *s)
{
    yk_t d = yk_sub(s->h, yk_mean(s->h, 1, true));
    yk_t var = yk_mean(square_of(d), 1, true);
    return yk_cross_entropy(yk_linear(yk_mul(d, yk_rsqrt(yk_shift(var, 1e-3f))), s->q, YK_NO), s->y);
}

static yk_t softmax_over_rows(const step *s)
{
    return sum_all(yk_mul(yk_softmax(transpose_of(s->h)), transpose_of(by_matrix(s))));
}

static yk_t log_softmax_over_rows(const step *s)
{
    return yk_mean(yk_mul(yk_log_softmax(yk_sum(s->h, 2, false)), s->weight), 1, false);
}

static yk_t log_sum_exp(const step *s)
{
    yk_t top = yk_max(s->h, 1, true);
    return sum_all(yk_add(yk_log(yk_sum(yk_exp(yk_sub(s->h, top)), 1, true)), top));
}

static yk_t loss_gram(const step *s)
{
    return sum_all(square_of(yk_matmul(transpose_of(s->h), s->h)));
}

static yk_t loss_correlation(const step *s) /* linear in the product over rows, times a parameter */
{
    return sum_all(yk_mul(yk_matmul(transpose_of(s->h), s->h), s->q));
}

static yk_t product_of_terms(const step *s) /* a term of a sum over ranks times a matrix */
{
    return sum_all(square_of(yk_matmul(yk_matmul(transpose_of(s->h), s->h), s->q)));
}

static yk_t mean_of_products(const step *s)
{
    return yk_mean(yk_mul(yk_sum(s->h, 2, false), s->weight), 1, false);
}

static yk_t ratio_of_sums(const step *s)
{
    return yk_div(sum_all(yk_mul(s->h, by_matrix(s))), yk_shift(sum_all(square_of(s->h)), 0.5f));
}

static yk_t weighted_mean(const step *s)
{
    return yk_div(sum_all(yk_mul(loss_each(s), s->weight)), sum_all(s->weight));
}

static yk_t with_penalty(const step *s)
{
    return yk_add(yk_mean(loss_each(s), 1, false), weight_penalty(s));
}

static yk_t counted_with_penalties(const step *s) /* two addends that all ranks have alike */
{
    return yk_sub(yk_add(yk_cross_entropy(s->h, s->y), weight_penalty(s)), yk_scale(sum_all(square_of(s->b)), 0.1f));
}

static yk_t penalty_only(const step *s)
{
    return yk_shift(weight_penalty(s), 2);
}

static yk_t product_of_losses(const step *s)
{
    return yk_mul(yk_cross_entropy(s->h, s->y), yk_mean(square_of(s->h), 3, false));
}

static yk_t square_of_loss(const step *s)
{
    return square_of(yk_cross_entropy(s->h, s->y));
}

static yk_t loss_perplexity(const step *s)
{
    return yk_exp(yk_cross_entropy(s->h, s->y));
}

static yk_t counted_and_composed(const step *s)
{
    return yk_add(yk_cross_entropy(s->h, s->y), yk_scale(root_of_mean(s), 0.3f));
}

static yk_t mse_against_mean(const step *s)
{
    return yk_mse_loss(s->h, yk_expand(yk_mean(s->h, 1, true), 2, (const int64_t[]){s->n, MID}), NULL);
}

static yk_t mse_of_means(const step *s) /* both are the same on all ranks */
{
    return yk_mse_loss(yk_mean(s->h, 1, false), s->b, NULL);
}

static yk_t bce_of_shifted(const step *s)
{
    yk_t target = yk_cast(yk_less(yk_constant(s->job, 0), s->x), YK_F32);
    yk_t logits = yk_sub(yk_slice(s->h, 1, 0, 3, 1), yk_mean(s->h, 3, false));
    return yk_bce_with_logits(logits, target, &(yk_loss_config){.reduction = YK_SUM});
}

static yk_t loss_chosen(const step *s)
{
    yk_t mean = yk_mean(s->h, 1, false);
    return sum_all(yk_where(yk_less(mean, yk_constant(s->job, 0.1f)), square_of(mean), yk_scale(mean, 0.5f)));
}

static yk_t clamped_mean(const step *s)
{
    return sum_all(yk_maximum(yk_mean(s->h, 1, false), yk_constant(s->job, 0.05f)));
}

static yk_t merged_rows(const step *s) /* [n, 4] -> [2 n, 2] -> [4 n] */
{
    yk_t v = yk_reshape(s->h, 2, (const int64_t[]){-1, 2});
    return yk_sqrt(yk_mean(square_of(yk_reshape(v, 1, flat_all)), 1, false));
}

static yk_t split_rows(const step *s) /* [n, 4] -> [n, 2, 2] -> [2, 2, n] */
{
    yk_t v = yk_permute(yk_reshape(s->h, 3, (const int64_t[]){-1, 2, 2}), (const uint32_t[]){1, 2, 0});
    return sum_all(square_of(yk_sum(v, 4, false)));
}

static yk_t twice_the_rows(const step *s)
{
    const yk_t both[2] = {s->h, by_matrix(s)};
    return yk_sqrt(yk_mean(square_of(yk_concat(both, 2, 0)), 3, false));
}

static yk_t joined_terms(const step *s)
{
    const yk_t two[2] = {yk_sum(s->h, 1, false), yk_mean(by_matrix(s), 1, false)}, mixed[2] = {yk_sum(s->h, 1, false), s->b};
    return yk_add(sum_all(square_of(yk_concat(two, 2, 0))), sum_all(square_of(yk_pad(yk_concat(mixed, 2, 0), 0, 1, 2, 0.5f))));
}

static yk_t spread_parameter(const step *s) /* to every row, before it meets one */
{
    yk_t rows = yk_expand(s->b, 2, (const int64_t[]){s->n, MID});
    return yk_add(yk_sqrt(yk_shift(sum_all(square_of(rows)), 1)), yk_mean(yk_mul(rows, s->h), 3, false));
}

static yk_t mean_through_layer(const step *s)
{
    yk_t m = yk_mean(s->h, 1, true);
    return sum_all(square_of(yk_tanh(yk_linear(m, s->q, s->b))));
}

static yk_t around_the_mean(const step *s) /* a mean of the batch in the midst of a net */
{
    yk_t d = yk_sub(s->h, yk_mean(s->h, 1, true));
    return yk_cross_entropy(yk_linear(d, s->q, s->b), s->y);
}

static yk_t loss_recomputed(const step *s)
{
    yk_recompute_begin(s->job);
    yk_t d = yk_tanh(yk_mul(yk_sub(by_matrix(s), yk_mean(by_matrix(s), 1, true)), yk_max(s->h, 1, true)));
    yk_recompute_end(s->job);
    return yk_cross_entropy(d, s->y);
}

static yk_t weights_of_classes(const step *s) /* four, as one rank has rows */
{
    static const float weight[MID] = {0.5f, 1, 1.5f, 2};
    yk_t w = yk_input(s->job, YK_F32, 1, (const int64_t[]){MID}, weight);
    return yk_sqrt(yk_mean(yk_mul(square_of(s->h), w), 3, false));
}

static yk_t number_of_all(const step *s, float number) /* [1], as one rank has rows */
{
    return yk_input(s->job, YK_F32, 1, (const int64_t[]){1}, &number);
}

static yk_t times_a_number(const step *s)
{
    return yk_sum(yk_mul(loss_each(s), number_of_all(s, 0.7f)), 1, false);
}

static yk_t spread_number(const step *s) /* in every row and column */
{
    yk_t rows = yk_expand(number_of_all(s, 0.7f), 2, (const int64_t[]){s->n, MID});
    return yk_sqrt(yk_mean(yk_mul(rows, square_of(s->h)), 3, false));
}

static yk_t table_of_all(const step *s) /* said to be the same on all ranks */
{
    static const float table[MID * MID] = {1, 0.5f, 0, 0, 0, 1, 0.5f, 0, 0, 0, 1, 0.5f, 0.5f, 0, 0, 1};
    yk_t t = yk_replicated(yk_input(s->job, YK_F32, 2, (const int64_t[]){MID, MID}, table));
    return yk_sqrt(yk_mean(square_of(yk_matmul(s->h, t)), 3, false));
}

static yk_t four_times(const step *s) /* four, as one rank has rows, and not one for each */
{
    yk_t four = yk_mul(yk_replicated(yk_expand(s->b, 2, (const int64_t[]){MID, MID})), s->q);
    return yk_sqrt(yk_mean(square_of(yk_matmul(s->h, transpose_of(four))), 3, false));
}

static yk_t classes_weighed(const step *s)
{
    static const float weight[MID] = {0.5f, 1, 1.5f, 2};
    yk_t w = yk_input(s->job, YK_F32, 1, (const int64_t[]){MID}, weight);
    return square_of(yk_cross_entropy_with(s->h, s->y, &(yk_cross_entropy_config){.weight = w, .smoothing = 0.1f}));
}

static yk_t loss_gathered(const step *s)
{
    return yk_sqrt(yk_sum(square_of(yk_mul(yk_embedding(s->y, s->q, -1), s->h)), 3, false));
}

static yk_t loss_dropped(const step *s) /* rows by their global number, a parameter alike on all ranks */
{
    yk_t h = yk_dropout(s->h, 0.4f);
    return yk_add(yk_sqrt(yk_mean(square_of(h), 3, false)), sum_all(square_of(yk_dropout(s->q, 0.4f))));
}

/* Some ranks take padding out and others do not, as a model decides by what it saves. */
static yk_t packed_by_some(const step *s)
{
    int32_t keep[ROWS * IN] = {0};
    for (int64_t i = 0; i < s->n; i++)
        keep[i * IN] = keep[i * IN + 1] = 1, keep[i * IN + 2] = 0;
    yk_t counts = yk_input(s->job, YK_I32, 2, (const int64_t[]){s->n, IN}, keep);
    yk_t v = yk_mul(yk_reshape(s->x, 3, (const int64_t[]){s->n, IN, 1}), s->b);
    if (s->n % 2)
        v = yk_unpack_tokens(
            yk_dropout_packed(yk_tanh(yk_linear(yk_pack_tokens(v, counts), s->q, YK_NO)), 0.3f, counts), counts);
    else
        v = yk_dropout(yk_tanh(yk_linear(v, s->q, YK_NO)), 0.3f);
    v = yk_mul(v, yk_reshape(yk_cast(counts, YK_F32), 3, (const int64_t[]){s->n, IN, 1}));
    return yk_sqrt(yk_mean(square_of(v), 7, false));
}

static yk_t of_layer_norm(const step *s)
{
    return yk_log(yk_mean(yk_exp(yk_layer_norm(by_matrix(s), s->b, YK_NO, 1e-5f)), 3, false));
}

/* Each row against those of all ranks: it must be found among them (CLIP, SimCLR). */
static yk_t loss_contrastive(const step *s)
{
    int32_t own[ROWS] = {0};
    for (int64_t i = 0; i < s->n; i++)
        own[i] = (int32_t)(s->first + i);
    yk_t all = yk_gather_rows(by_matrix(s));
    yk_t number = yk_input(s->job, YK_I32, 1, (const int64_t[]){s->n}, own);
    return yk_cross_entropy(yk_scale(yk_matmul(s->h, transpose_of(all)), 1.5f), number);
}

static yk_t gathered_gram(const step *s) /* all ranks compute it */
{
    yk_t all = yk_gather_rows(s->h);
    return sum_all(yk_exp(yk_matmul(all, transpose_of(all))));
}

static yk_t gathered_and_not(const step *s) /* [n, 2, 2], twice */
{
    yk_t v = yk_reshape(s->h, 3, (const int64_t[]){-1, 2, 2});
    return yk_add(yk_sqrt(sum_all(square_of(yk_mean(yk_gather_rows(v), 1, false)))), yk_mean(square_of(v), 7, false));
}

static yk_t best_row(const step *s)
{
    return sum_all(yk_mul(yk_cast(yk_argmax(s->h, 0), YK_F32), s->b));
}

/* Some are 1 and some 0: the first of equal ones counts, on whatever rank. */
static yk_t best_of_ties(const step *s)
{
    yk_t v = yk_cast(yk_less(yk_constant(s->job, 0.8f), s->weight), YK_F32);
    return yk_mul(yk_cast(yk_argmax(v, 0), YK_F32), sum_all(square_of(s->b)));
}

/* ---- The same in double, for finite differences ---- */

static double h_of(const double *v, int row, int k)
{
    double a = v[MID * IN + k];
    for (int i = 0; i < IN; i++)
        a += v[k * IN + i] * (double)x_of(row, i);
    return tanh(a);
}

static double double_root(const double *v)
{
    double sum = 0;
    for (int i = 0; i < ROWS * MID; i++)
        sum += h_of(v, i / MID, i % MID) * h_of(v, i / MID, i % MID);
    return sqrt(sum / (ROWS * MID));
}

static double double_largest(const double *v)
{
    double all = 0;
    for (int k = 0; k < MID; k++) {
        double top = -1;
        for (int r = 0; r < ROWS; r++)
            top = fmax(top, h_of(v, r, k));
        all += top * top;
    }
    return all;
}

static double double_variance(const double *v)
{
    double all = 0;
    for (int k = 0; k < MID; k++) {
        double mean = 0;
        for (int r = 0; r < ROWS; r++)
            mean += h_of(v, r, k) / ROWS;
        for (int r = 0; r < ROWS; r++)
            all += (h_of(v, r, k) - mean) * (h_of(v, r, k) - mean);
    }
    return all / (ROWS * MID);
}

static double double_log_sum_exp(const double *v)
{
    double all = 0;
    for (int k = 0; k < MID; k++) {
        double sum = 0;
        for (int r = 0; r < ROWS; r++)
            sum += exp(h_of(v, r, k));
        all += log(sum);
    }
    return all;
}

static double double_gram(const double *v)
{
    double all = 0;
    for (int i = 0; i < MID * MID; i++) {
        double sum = 0;
        for (int r = 0; r < ROWS; r++)
            sum += h_of(v, r, i / MID) * h_of(v, r, i % MID);
        all += sum * sum;
    }
    return all;
}

static double double_weighted_mean(const double *v)
{
    double loss = 0, weights = 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int k = 0; k < MID; k++)
            sum += exp(h_of(v, r, k));
        loss += (log(sum) - h_of(v, r, label_of(r))) * (double)weight_of(r);
        weights += (double)weight_of(r);
    }
    return loss / weights;
}

static double row_of_matrix(const double *v, int row, int k)
{
    double sum = 0;
    for (int i = 0; i < MID; i++)
        sum += v[MID * IN + MID + k * MID + i] * h_of(v, row, i);
    return sum;
}

static double double_contrastive(const double *v)
{
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, own = 0;
        for (int o = 0; o < ROWS; o++) {
            double z = 0;
            for (int k = 0; k < MID; k++)
                z += 1.5 * h_of(v, r, k) * row_of_matrix(v, o, k);
            sum += exp(z);
            own = o == r ? z : own;
        }
        loss += log(sum) - own;
    }
    return loss / ROWS;
}

static double double_best_row(const double *v)
{
    double all = 0;
    for (int k = 0; k < MID; k++) {
        int best = 0;
        for (int r = 1; r < ROWS; r++)
            best = h_of(v, r, k) > h_of(v, best, k) ? r : best;
        all += best * v[MID * IN + k];
    }
    return all;
}

/* ---- The table ---- */

#define LOSS(f) {#f, f, NULL, false}
#define COUNTED(f) {#f, f, NULL, true}

const loss_case cases[] = {
    LOSS(sum_of_each),
    LOSS(mean_of_each),
    LOSS(mean_of_all),
    LOSS(sum_of_means),
    LOSS(means_of_columns),
    {"root_of_mean", root_of_mean, double_root, false},
    LOSS(log_of_sum),
    LOSS(loss_largest),
    {"largest_of_columns", largest_of_columns, double_largest, false},
    LOSS(smallest_of_columns),
    LOSS(largest_with_ties),
    {"variance", loss_variance, double_variance, false},
    LOSS(norms_of_columns),
    COUNTED(normalised_rows),
    LOSS(softmax_over_rows),
    LOSS(log_softmax_over_rows),
    {"log_sum_exp", log_sum_exp, double_log_sum_exp, false},
    {"gram", loss_gram, double_gram, false},
    LOSS(loss_correlation),
    LOSS(product_of_terms),
    LOSS(mean_of_products),
    LOSS(ratio_of_sums),
    {"weighted_mean", weighted_mean, double_weighted_mean, false},
    LOSS(with_penalty),
    COUNTED(counted_with_penalties),
    LOSS(penalty_only),
    LOSS(product_of_losses),
    LOSS(square_of_loss),
    LOSS(loss_perplexity),
    LOSS(counted_and_composed),
    LOSS(mse_against_mean),
    LOSS(mse_of_means),
    LOSS(bce_of_shifted),
    LOSS(loss_chosen),
    LOSS(clamped_mean),
    LOSS(merged_rows),
    LOSS(split_rows),
    LOSS(twice_the_rows),
    LOSS(joined_terms),
    LOSS(spread_parameter),
    LOSS(mean_through_layer),
    COUNTED(around_the_mean),
    COUNTED(loss_recomputed),
    LOSS(weights_of_classes),
    LOSS(times_a_number),
    LOSS(spread_number),
    LOSS(table_of_all),
    LOSS(four_times),
    LOSS(classes_weighed),
    LOSS(loss_gathered),
    LOSS(loss_dropped),
    LOSS(packed_by_some),
    LOSS(of_layer_norm),
    {"contrastive", loss_contrastive, double_contrastive, true},
    LOSS(gathered_gram),
    LOSS(gathered_and_not),
    {"best_row", best_row, double_best_row, false},
    LOSS(best_of_ties),
};

const size_t n_cases = sizeof cases / sizeof cases[0];

/* Losses that cannot be split */

static yk_t against_each_other(const step *s)
{
    return sum_all(yk_matmul(s->h, transpose_of(s->h)));
}

static yk_t loss_distances(const step *s)
{
    yk_t one = yk_reshape(s->h, 3, (const int64_t[]){s->n, 1, MID}), other = yk_reshape(s->h, 3, (const int64_t[]){1, s->n, MID});
    return sum_all(square_of(yk_sub(one, other)));
}

static yk_t first_row(const step *s)
{
    return sum_all(square_of(yk_slice(s->h, 0, 0, 1, 1)));
}

static yk_t best_of_merged(const step *s)
{
    return sum_all(yk_cast(yk_argmax(yk_reshape(s->h, 2, (const int64_t[]){-1, 2}), 0), YK_F32));
}

static yk_t gathered_columns(const step *s)
{
    return sum_all(yk_gather_rows(transpose_of(s->h)));
}

static yk_t rows_together(const step *s)
{
    return sum_all(yk_max(yk_reshape(s->h, 2, (const int64_t[]){-1, 2 * MID}), 2, false));
}

static yk_t padded_rows(const step *s)
{
    return sum_all(yk_exp(yk_pad(s->h, 0, 0, 1, 0)));
}

static yk_t own_mean(const step *s) /* divided by this rank's rows */
{
    return yk_scale(yk_sum(loss_each(s), 1, false), 1 / (float)s->n);
}

static yk_t own_table(const step *s) /* no rows, but not the same on all ranks */
{
    const float v[5] = {1, 2, 3, 4, (float)s->n};
    return yk_mul(sum_all(square_of(s->h)), sum_all(yk_input(s->job, YK_F32, 1, (const int64_t[]){5}, v)));
}

/* Inputs behind the last place in the exchange share that place. */
static yk_t own_late_table(const step *s)
{
    yk_t out = sum_all(square_of(s->h));
    for (int i = 0; i < 12; i++) {
        const float v[5] = {1, 2, 3, 4, i == 11 ? (float)s->n : 5};
        out = yk_mul(out, sum_all(yk_input(s->job, YK_F32, 1, (const int64_t[]){5}, v)));
    }
    return out;
}

/* Four numbers, as one rank has rows, and twice as many as the other has; they meet the columns. */
static yk_t own_numbers(const step *s)
{
    const float v[MID] = {1, 2, 3, (float)s->first};
    return yk_input(s->job, YK_F32, 1, (const int64_t[]){MID}, v);
}

static yk_t own_weights_of_classes(const step *s)
{
    return sum_all(yk_mul(square_of(s->h), own_numbers(s)));
}

static yk_t own_weights_seen(const step *s) /* through a view */
{
    return sum_all(yk_mul(square_of(s->h), yk_reshape(own_numbers(s), 2, (const int64_t[]){1, MID})));
}

static yk_t own_differences(const step *s) /* of this rank's rows from each other */
{
    yk_t one = yk_reshape(s->weight, 2, (const int64_t[]){s->n, 1}), other = yk_reshape(s->weight, 2, (const int64_t[]){1, s->n});
    return yk_add(sum_all(square_of(s->h)), sum_all(yk_mul(yk_sub(one, other), yk_sum(s->h, 2, true))));
}

static yk_t own_bias(const step *s)
{
    yk_t q = yk_reshape(s->h, 4, (const int64_t[]){s->n, 1, MID, 1}), bias = yk_reshape(own_numbers(s), 2, (const int64_t[]){1, MID});
    return sum_all(yk_attention(q, q, q, &(yk_attention_config){.bias = bias}));
}

static yk_t own_number(const step *s)
{
    return yk_sum(yk_mul(loss_each(s), number_of_all(s, 1 + (float)s->first)), 1, false);
}

static yk_t own_number_spread(const step *s)
{
    return sum_all(yk_mul(yk_expand(number_of_all(s, 1 + (float)s->first), 2, (const int64_t[]){s->n, MID}), square_of(s->h)));
}

static yk_t number_as_table(const step *s) /* no rank can tell if it has a row there */
{
    return sum_all(yk_mul(s->h, yk_reshape(number_of_all(s, 0.7f), 2, (const int64_t[]){1, 1})));
}

static yk_t in_evaluation(const step *s)
{
    yk_train(s->job, false);
    return root_of_mean(s);
}

const refusal refusals[] = {
    {"against_each_other", against_each_other, {"yk_matmul of f32[4, ", "each row of one operand meets the other operand's rows"}, true, 0},
    {"distances", loss_distances, {"yk_sub of f32[", "rows of different ranks meet"}, true, 0},
    {"first_row", first_row, {"yk_slice of f32[", "it takes some of this rank's rows"}, true, 0},
    {"best_of_merged", best_of_merged, {"yk_argmax of f32[", "some entries along the axis are of one row"}, true, 0},
    {"gathered_columns", gathered_columns, {"yk_gather_rows of f32[4, ", "its rows do not lie along its first axis"}, true, 0},
    {"rows_together", rows_together, {"yk_reshape of f32[", "puts some of them together"}, true, 0},
    {"padded_rows", padded_rows, {"yk_pad of f32[", "between this rank's rows and the next rank's"}, true, 0},
    {"own_mean", own_mean, {"has another graph", "divide by the rows of all"}, false, 0},
    {"own_table", own_table, {"input 3 of the step, f32[5] at ", "has no row for each of this rank's"}, false, 0},
    {"own_late_table", own_late_table, {"f32[5] (or a later one) at ", "has no row for each of this rank's"}, false, 0},
    {"own_weights_of_classes", own_weights_of_classes, {"input 3 of the step, f32[4] at ", "does not lie along the rows"}, true, 0},
    {"own_weights_seen", own_weights_seen, {"input 3 of the step, f32[4] at ", "does not lie along the rows"}, true, 0},
    {"own_differences", own_differences, {"input 2 of the step, f32[", "does not lie along the rows"}, false, 0},
    {"own_bias", own_bias, {"input 3 of the step, f32[4] at ", "does not lie along the rows"}, true, 0},
    {"own_number", own_number, {"input 3 of the step, f32[1] at ", "the same on all ranks, and it is not"}, true, 1},
    {"own_number_spread", own_number_spread, {"input 3 of the step, f32[1] at ", "the same on all ranks, and it is not"}, true, 1},
    {"number_as_table", number_as_table, {"yk_reshape with", "the number of rows on some ranks only by chance"}, true, 1},
    {"in_evaluation", in_evaluation, {"yk_sqrt of f32[] at ", "in evaluation (yk_train off) the ranks exchange nothing"}, true, 0},
};

const size_t n_refusals = sizeof refusals / sizeof refusals[0];
