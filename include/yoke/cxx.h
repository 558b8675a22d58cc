/* SPDX-License-Identifier: Apache-2.0 */
/* Made by scripts/api from yoke.h, which includes it: in C++, a call that may fail notes the caller's line for its error, by default
 * arguments. A call that takes a struct passes its size. Define YK_NO_HERE to do without the lines. */
#ifndef YOKE_H
#include <yoke/yoke.h>
#elif defined(__cplusplus) && !defined(YOKE_CXX_H)
#define YOKE_CXX_H
#ifndef YK_NO_HERE
#define YK__FILE __builtin_FILE()
#define YK__LINE __builtin_LINE()
#else
#define YK__FILE nullptr
#define YK__LINE 0
#endif
#define YK__PLACE const char *yk__file = YK__FILE, int yk__line = YK__LINE
#define YK__AT(file, line, call) { yk__at(file, line); return call; }
extern "C++" {
inline void yk__at(const char *file, int line)
{
    if (file)
        yk_here(file, line);
}
/* A text for printf, with the place of the call that it is an argument of. */
struct yk_format {
    const char *text, *file;
    int line;
    yk_format(const char *format, YK__PLACE) : text(format), file(yk__file), line(yk__line) {}
};
#undef yk_open
inline yk_job *yk_open(const yk_config *config, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_open(config, sizeof(yk_config)))
#undef yk_close
inline int yk_close(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_close(job))
#undef yk_fail
inline void yk_fail(yk_job *job, yk_status status, const char *text, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_fail(job, status, text))
#undef yk_memory_get
inline void yk_memory_get(const yk_job *job, yk_memory *m)
{ return yk__c_memory_get(job, m, sizeof(yk_memory)); }
#undef yk_param_hash
inline uint64_t yk_param_hash(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_param_hash(job))
#undef yk_average_params
inline void yk_average_params(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_average_params(job))
#undef yk_barrier
inline void yk_barrier(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_barrier(job))
#undef yk_main_first_begin
inline void yk_main_first_begin(yk_job *job, bool local, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_main_first_begin(job, local))
#undef yk_main_first_end
inline void yk_main_first_end(yk_job *job, bool local, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_main_first_end(job, local))
#undef yk_check_trigger
inline bool yk_check_trigger(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_check_trigger(job))
#undef yk_trace_begin
inline void yk_trace_begin(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_trace_begin(job))
#undef yk_trace_end
inline void yk_trace_end(yk_job *job, const char *file, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_trace_end(job, file))
#undef yk_sync
inline void yk_sync(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sync(job))
#undef yk_print_in_order
template <typename... T>
inline void yk_print_in_order(yk_job *job, yk_format fmt, T... more)
YK__AT(fmt.file, fmt.line, yk__c_print_in_order(job, fmt.text, more...))
#undef yk_all_reduce_sum
inline void yk_all_reduce_sum(yk_job *job, double *v, uint32_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_all_reduce_sum(job, v, n))
#undef yk_all_reduce_mean
inline void yk_all_reduce_mean(yk_job *job, double *v, uint32_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_all_reduce_mean(job, v, n))
#undef yk_all_reduce_max
inline void yk_all_reduce_max(yk_job *job, double *v, uint32_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_all_reduce_max(job, v, n))
#undef yk_gather
inline void yk_gather(yk_job *job, const void *data, size_t bytes, void *all, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gather(job, data, bytes, all))
#undef yk_gather_object
inline const void *yk_gather_object(yk_job *job, const void *data, size_t bytes, const size_t **size, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gather_object(job, data, bytes, size))
#undef yk_gather_for_metrics
inline const void *yk_gather_for_metrics(yk_job *job, const void *data, size_t row_bytes, int64_t *rows, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gather_for_metrics(job, data, row_bytes, rows))
#undef yk_broadcast
inline void yk_broadcast(yk_job *job, void *data, size_t bytes, uint32_t root, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_broadcast(job, data, bytes, root))
#undef yk_broadcast_object
inline const void *yk_broadcast_object(yk_job *job, const void *data, size_t *bytes, uint32_t root, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_broadcast_object(job, data, bytes, root))
#undef yk_pad_across_ranks
inline const void *yk_pad_across_ranks(yk_job *job, yk_dtype dtype, uint32_t dims, int64_t *dim, const void *data,
                                       const yk_pad_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_pad_across_ranks(job, dtype, dims, dim, data, c, sizeof(yk_pad_config)))
#undef yk_param
inline yk_t yk_param(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, yk_init init, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_param(job, name, dims, dim, init))
#undef yk_state
inline yk_t yk_state(yk_job *job, const char *name, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_state(job, name, dtype, dims, dim, value))
#undef yk_assign
inline void yk_assign(yk_t state, yk_t value, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_assign(state, value))
#undef yk_freeze
inline void yk_freeze(yk_t param, bool frozen, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_freeze(param, frozen))
#undef yk_param_write
inline void yk_param_write(yk_t param, const float *data, size_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_param_write(param, data, n))
#undef yk_param_read
inline void yk_param_read(yk_t param, float *data, size_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_param_read(param, data, n))
#undef yk_grad_read
inline void yk_grad_read(yk_t param, float *data, size_t n, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_grad_read(param, data, n))
#undef yk_input
inline yk_t yk_input(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_input(job, dtype, dims, dim, data))
#undef yk_replicated
inline yk_t yk_replicated(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_replicated(x))
#undef yk_set_rows
inline void yk_set_rows(yk_job *job, int64_t local, const int32_t *row, int64_t global, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_set_rows(job, local, row, global))
#undef yk_split
inline void yk_split(yk_job *job, uint64_t n, uint64_t *first, uint64_t *count, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_split(job, n, first, count))
#undef yk_constant
inline yk_t yk_constant(yk_job *job, float value, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_constant(job, value))
#undef yk_keep
inline yk_t yk_keep(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_keep(x))
#undef yk_item
inline double yk_item(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_item(x))
#undef yk_read
inline void yk_read(yk_t x, void *data, size_t bytes, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_read(x, data, bytes))
#undef yk_track
inline void yk_track(yk_job *job, const char *name, yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_track(job, name, x))
#undef yk_track_open
inline void yk_track_open(yk_job *job, const char *path, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_track_open(job, path))
#undef yk_end
inline void yk_end(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_end(job))
#undef yk_add
inline yk_t yk_add(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_add(a, b))
#undef yk_sub
inline yk_t yk_sub(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sub(a, b))
#undef yk_mul
inline yk_t yk_mul(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_mul(a, b))
#undef yk_div
inline yk_t yk_div(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_div(a, b))
#undef yk_maximum
inline yk_t yk_maximum(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_maximum(a, b))
#undef yk_minimum
inline yk_t yk_minimum(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_minimum(a, b))
#undef yk_less
inline yk_t yk_less(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_less(a, b))
#undef yk_equal
inline yk_t yk_equal(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_equal(a, b))
#undef yk_where
inline yk_t yk_where(yk_t c, yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_where(c, a, b))
#undef yk_scale
inline yk_t yk_scale(yk_t x, float factor, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_scale(x, factor))
#undef yk_shift
inline yk_t yk_shift(yk_t x, float addend, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_shift(x, addend))
#undef yk_neg
inline yk_t yk_neg(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_neg(x))
#undef yk_abs
inline yk_t yk_abs(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_abs(x))
#undef yk_exp
inline yk_t yk_exp(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_exp(x))
#undef yk_log
inline yk_t yk_log(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_log(x))
#undef yk_sqrt
inline yk_t yk_sqrt(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sqrt(x))
#undef yk_rsqrt
inline yk_t yk_rsqrt(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_rsqrt(x))
#undef yk_cast
inline yk_t yk_cast(yk_t x, yk_dtype dtype, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_cast(x, dtype))
#undef yk_relu
inline yk_t yk_relu(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_relu(x))
#undef yk_gelu
inline yk_t yk_gelu(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gelu(x))
#undef yk_gelu_tanh
inline yk_t yk_gelu_tanh(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gelu_tanh(x))
#undef yk_silu
inline yk_t yk_silu(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_silu(x))
#undef yk_tanh
inline yk_t yk_tanh(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_tanh(x))
#undef yk_sigmoid
inline yk_t yk_sigmoid(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sigmoid(x))
#undef yk_erf
inline yk_t yk_erf(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_erf(x))
#undef yk_sinh
inline yk_t yk_sinh(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sinh(x))
#undef yk_reshape
inline yk_t yk_reshape(yk_t x, uint32_t dims, const int64_t *dim, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_reshape(x, dims, dim))
#undef yk_flatten
inline yk_t yk_flatten(yk_t x, int32_t from, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_flatten(x, from))
#undef yk_permute
inline yk_t yk_permute(yk_t x, const uint32_t *axis, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_permute(x, axis))
#undef yk_slice
inline yk_t yk_slice(yk_t x, int32_t axis, int64_t begin, int64_t end, int64_t step, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_slice(x, axis, begin, end, step))
#undef yk_concat
inline yk_t yk_concat(const yk_t *x, uint32_t n, int32_t axis, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_concat(x, n, axis))
#undef yk_pad
inline yk_t yk_pad(yk_t x, int32_t axis, int64_t before, int64_t after, float value, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_pad(x, axis, before, after, value))
#undef yk_expand
inline yk_t yk_expand(yk_t x, uint32_t dims, const int64_t *dim, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_expand(x, dims, dim))
#undef yk_sum
inline yk_t yk_sum(yk_t x, uint32_t axes, bool keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sum(x, axes, keep))
#undef yk_mean
inline yk_t yk_mean(yk_t x, uint32_t axes, bool keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_mean(x, axes, keep))
#undef yk_max
inline yk_t yk_max(yk_t x, uint32_t axes, bool keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_max(x, axes, keep))
#undef yk_argmax
inline yk_t yk_argmax(yk_t x, int32_t axis, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_argmax(x, axis))
#undef yk_gather_rows
inline yk_t yk_gather_rows(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_gather_rows(x))
#undef yk_matmul
inline yk_t yk_matmul(yk_t a, yk_t b, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_matmul(a, b))
#undef yk_linear
inline yk_t yk_linear(yk_t x, yk_t weight, yk_t bias, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_linear(x, weight, bias))
#undef yk_linear_io
inline yk_t yk_linear_io(yk_t x, yk_t weight, yk_t bias, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_linear_io(x, weight, bias))
#undef yk_conv2d
inline yk_t yk_conv2d(yk_t x, yk_t weight, yk_t bias, const yk_conv2d_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_conv2d(x, weight, bias, c, sizeof(yk_conv2d_config)))
#undef yk_max_pool2d
inline yk_t yk_max_pool2d(yk_t x, const yk_pool2d_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_max_pool2d(x, c, sizeof(yk_pool2d_config)))
#undef yk_avg_pool2d
inline yk_t yk_avg_pool2d(yk_t x, const yk_pool2d_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_avg_pool2d(x, c, sizeof(yk_pool2d_config)))
#undef yk_adaptive_avg_pool2d
inline yk_t yk_adaptive_avg_pool2d(yk_t x, int64_t height, int64_t width, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_adaptive_avg_pool2d(x, height, width))
#undef yk_layer_norm
inline yk_t yk_layer_norm(yk_t x, yk_t gamma, yk_t beta, float eps, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_layer_norm(x, gamma, beta, eps))
#undef yk_batch_norm
inline yk_t yk_batch_norm(yk_t x, yk_t gamma, yk_t beta, yk_batch_norm_state running, float momentum, float eps, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_batch_norm(x, gamma, beta, running, momentum, eps))
#undef yk_embedding
inline yk_t yk_embedding(yk_t ids, yk_t table, int32_t padding_index, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_embedding(ids, table, padding_index))
#undef yk_dropout
inline yk_t yk_dropout(yk_t x, float p, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_dropout(x, p))
#undef yk_packed_count
inline int64_t yk_packed_count(yk_t keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_packed_count(keep))
#undef yk_pack_tokens
inline yk_t yk_pack_tokens(yk_t x, yk_t keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_pack_tokens(x, keep))
#undef yk_unpack_tokens
inline yk_t yk_unpack_tokens(yk_t x, yk_t keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_unpack_tokens(x, keep))
#undef yk_dropout_packed
inline yk_t yk_dropout_packed(yk_t x, float p, yk_t keep, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_dropout_packed(x, p, keep))
#undef yk_softmax
inline yk_t yk_softmax(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_softmax(x))
#undef yk_log_softmax
inline yk_t yk_log_softmax(yk_t x, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_log_softmax(x))
#undef yk_attention
inline yk_t yk_attention(yk_t q, yk_t k, yk_t v, const yk_attention_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_attention(q, k, v, c, sizeof(yk_attention_config)))
#undef yk_cross_entropy
inline yk_t yk_cross_entropy(yk_t logits, yk_t labels, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_cross_entropy(logits, labels))
#undef yk_cross_entropy_with
inline yk_t yk_cross_entropy_with(yk_t logits, yk_t labels, const yk_cross_entropy_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_cross_entropy_with(logits, labels, c, sizeof(yk_cross_entropy_config)))
#undef yk_bce_with_logits
inline yk_t yk_bce_with_logits(yk_t logits, yk_t target, const yk_loss_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_bce_with_logits(logits, target, c, sizeof(yk_loss_config)))
#undef yk_mse_loss
inline yk_t yk_mse_loss(yk_t x, yk_t target, const yk_loss_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_mse_loss(x, target, c, sizeof(yk_loss_config)))
#undef yk_recompute_begin
inline void yk_recompute_begin(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_recompute_begin(job))
#undef yk_recompute_end
inline void yk_recompute_end(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_recompute_end(job))
#undef yk_full_precision_begin
inline void yk_full_precision_begin(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_full_precision_begin(job))
#undef yk_full_precision_end
inline void yk_full_precision_end(yk_job *job, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_full_precision_end(job))
#undef yk_backward
inline void yk_backward(yk_t loss, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_backward(loss))
#undef yk_clip_norm
inline void yk_clip_norm(yk_job *job, float max, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_clip_norm(job, max))
#undef yk_clip_value
inline void yk_clip_value(yk_job *job, float max, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_clip_value(job, max))
#undef yk_sgd
inline yk_opt *yk_sgd(yk_job *job, const yk_sgd_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sgd(job, c, sizeof(yk_sgd_config)))
#undef yk_adam
inline yk_opt *yk_adam(yk_job *job, const yk_adam_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_adam(job, c, sizeof(yk_adam_config)))
#undef yk_adamw
inline yk_opt *yk_adamw(yk_job *job, const yk_adam_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_adamw(job, c, sizeof(yk_adam_config)))
#undef yk_opt_group
inline uint32_t yk_opt_group(yk_opt *opt, double lr_factor, double weight_decay, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_opt_group(opt, lr_factor, weight_decay))
#undef yk_opt_move
inline void yk_opt_move(yk_opt *opt, uint32_t group, yk_t param, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_opt_move(opt, group, param))
#undef yk_set_lr
inline void yk_set_lr(yk_opt *opt, double lr, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_set_lr(opt, lr))
#undef yk_step
inline void yk_step(yk_opt *opt, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_step(opt))
#undef yk_step_loss
inline double yk_step_loss(yk_opt *opt, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_step_loss(opt))
#undef yk_step_seconds
inline double yk_step_seconds(yk_opt *opt, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_step_seconds(opt))
#undef yk_schedule
inline yk_sched *yk_schedule(yk_opt *opt, const yk_sched_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_schedule(opt, c, sizeof(yk_sched_config)))
#undef yk_data_open
inline yk_data *yk_data_open(yk_job *job, const char *spec, const yk_data_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_data_open(job, spec, c, sizeof(yk_data_config)))
#undef yk_data_save_tokenizer
inline void yk_data_save_tokenizer(const yk_data *d, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_data_save_tokenizer(d, dir))
#undef yk_data_next
inline bool yk_data_next(yk_data *d, yk_batch *batch, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_data_next(d, batch))
#undef yk_data_each
inline bool yk_data_each(yk_data *d, yk_batch *batch, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_data_each(d, batch))
#undef yk_data_seek
inline void yk_data_seek(yk_data *d, uint64_t epoch, uint64_t batch, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_data_seek(d, epoch, batch))
#undef yk_sampler_new
inline yk_sampler *yk_sampler_new(yk_job *job, const yk_sampler_config *c, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sampler_new(job, c, sizeof(yk_sampler_config)))
#undef yk_sampler_next
inline bool yk_sampler_next(yk_sampler *s, yk_sample *sample, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sampler_next(s, sample))
#undef yk_sampler_end
inline void yk_sampler_end(yk_sampler *s, uint64_t rows, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sampler_end(s, rows))
#undef yk_sampler_seek
inline void yk_sampler_seek(yk_sampler *s, uint64_t epoch, uint64_t batch, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_sampler_seek(s, epoch, batch))
#undef yk_find_batch_size
inline uint32_t yk_find_batch_size(const yk_config *config, uint32_t start, void (*step)(yk_job *job, uint32_t batch, void *user),
                                   void *user, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_find_batch_size(config, start, step, user, sizeof(yk_config)))
#undef yk_model_new
inline yk_model *yk_model_new(yk_job *job, const char *name, const char *config, const yk_data *data, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_new(job, name, config, data))
#undef yk_model_from_pretrained
inline yk_model *yk_model_from_pretrained(yk_job *job, const char *dir, const char *config, const yk_data *data, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_from_pretrained(job, dir, config, data))
#undef yk_model_load
inline void yk_model_load(yk_model *m, const char *path, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_load(m, path))
#undef yk_model_save
inline void yk_model_save(yk_model *m, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_save(m, dir))
#undef yk_model_fits
inline bool yk_model_fits(yk_model *m, const yk_data *data, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_fits(m, data))
#undef yk_forward
inline yk_t yk_forward(yk_model *m, const yk_batch *batch, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_forward(m, batch))
#undef yk_model_loss
inline yk_t yk_model_loss(yk_model *m, const yk_batch *batch, yk_t logits, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_loss(m, batch, logits))
#undef yk_model_label_smoothing
inline void yk_model_label_smoothing(yk_model *m, float smoothing, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_label_smoothing(m, smoothing))
#undef yk_model_recompute
inline void yk_model_recompute(yk_model *m, bool on, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_recompute(m, on))
#undef yk_model_part
inline yk_t yk_model_part(yk_model *m, const yk_batch *batch, const char *part, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_model_part(m, batch, part))
#undef yk_settings_new
inline yk_settings *yk_settings_new(yk_job *job, const char *pairs, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_new(job, pairs))
#undef yk_settings_json
inline void yk_settings_json(yk_settings *s, const char *file, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_json(s, file))
#undef yk_settings_put
inline void yk_settings_put(yk_settings *s, const char *key, const char *value, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_put(s, key, value))
#undef yk_settings_labels
inline void yk_settings_labels(yk_settings *s, uint32_t n, const char *const *name, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_labels(s, n, name))
#undef yk_settings_int
inline int64_t yk_settings_int(yk_settings *s, const char *key, int64_t preset, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_int(s, key, preset))
#undef yk_settings_real
inline double yk_settings_real(yk_settings *s, const char *key, double preset, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_real(s, key, preset))
#undef yk_settings_bool
inline bool yk_settings_bool(yk_settings *s, const char *key, bool preset, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_bool(s, key, preset))
#undef yk_settings_ints
inline uint32_t yk_settings_ints(yk_settings *s, const char *key, int64_t *v, uint32_t most, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_ints(s, key, v, most))
#undef yk_settings_check
inline void yk_settings_check(yk_settings *s, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_check(s))
#undef yk_settings_save
inline void yk_settings_save(yk_settings *s, const char *file, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_settings_save(s, file))
#undef yk_tokenizer_open
inline yk_tokenizer *yk_tokenizer_open(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_tokenizer_open(job, dir))
#undef yk_tokenizer_encode
inline int64_t yk_tokenizer_encode(yk_tokenizer *t, const char *text, uint32_t most, int32_t *id, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_tokenizer_encode(t, text, most, id))
#undef yk_weights_open
inline yk_weights *yk_weights_open(yk_job *job, const char *path, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_weights_open(job, path))
#undef yk_weights_read
inline bool yk_weights_read(yk_weights *w, const char *name, yk_t param, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_weights_read(w, name, param))
#undef yk_weights_same
inline bool yk_weights_same(yk_weights *w, const char *name, const char *other, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_weights_same(w, name, other))
#undef yk_make_dir
inline void yk_make_dir(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_make_dir(job, dir))
#undef yk_stage_begin
inline const char *yk_stage_begin(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_stage_begin(job, dir))
#undef yk_stage_commit
inline void yk_stage_commit(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_stage_commit(job, dir))
#undef yk_on_save
inline void yk_on_save(yk_job *job, void *object, void (*write)(void *object, const char *dir), YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_on_save(job, object, write))
#undef yk_on_load
inline void yk_on_load(yk_job *job, void *object, void (*read)(void *object, const char *dir), YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_on_load(job, object, read))
#undef yk_register_for_checkpointing
inline void yk_register_for_checkpointing(yk_job *job, const char *name, void *data, size_t bytes, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_register_for_checkpointing(job, name, data, bytes))
#undef yk_on_close
inline void yk_on_close(yk_job *job, void *object, void (*release)(void *object), YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_on_close(job, object, release))
#undef yk_weights_save
inline void yk_weights_save(yk_job *job, const char *file, uint32_t n, const char *const *name, const yk_t *param, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_weights_save(job, file, n, name, param))
#undef yk_save
inline void yk_save(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_save(job, dir))
#undef yk_load
inline void yk_load(yk_job *job, const char *dir, YK__PLACE)
YK__AT(yk__file, yk__line, yk__c_load(job, dir))
}
#undef YK__AT
#undef YK__PLACE
#undef YK__FILE
#undef YK__LINE
#endif
