/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution as cuDNN's graph: a descriptor of strides, dilations and padding, and an operation over x, w and y or their gradients, y =
 * conv(x, w) + beta y. conv_request.c asks for it while a program is made, in any thread.
 *
 * Yoke's convolution is cuDNN's cross-correlation. Tensors keep their order, [images, channels, rows, columns]: an engine that wants
 * channels side by side copies, in its workspace.
 */
#include "backends/cuda/cudnn_conv.h"

/* The operation of a kind, and its attributes' names. */
typedef struct operation {
    int type, config, x, w, y, alpha, beta;
} operation;

static const operation operations[] = {
    [KIT_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [KIT_CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [KIT_CONV_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* Sums are in fp32. */
static void *config_new(cuda_dnn_graph *g, const kit_convolution *c)
{
    const int64_t dims = 2;
    void *d = cuda_dnn_new(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cuda_dnn_number(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    cuda_dnn_number(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, c->dilation);
    cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, c->stride);
    cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, c->zeros);
    cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, c->zeros);
    cuda_dnn_end(g, d);
    return d;
}

void cuda_conv_build(cuda_dnn_graph *g, const kit_convolution *c)
{
    const operation *o = &operations[c->kind];
    const cudnnDataType_t type = cuda_dnn_type(c->dtype);
    const cuda_shape x = cuda_shape_dense(c->images, c->channels, c->height, c->width);
    const cuda_shape w = cuda_shape_dense(c->filters, c->channels / c->groups, c->tall, c->wide);
    const cuda_shape y = cuda_shape_dense(c->images, c->filters, c->rows, c->cols);
    const float alpha = 1, beta = c->accumulate ? 1 : 0;
    void *config = config_new(g, c), *xd = cuda_dnn_tensor(g, type, &x, CUDA_CONV_X, 0, 0);
    void *wd = cuda_dnn_tensor(g, type, &w, CUDA_CONV_W, 0, 0), *yd = cuda_dnn_tensor(g, type, &y, CUDA_CONV_Y, 0, 0);
    void *d = cuda_dnn_new(g, o->type);
    cuda_dnn_link(g, d, o->config, config);
    cuda_dnn_link(g, d, o->x, xd);
    cuda_dnn_link(g, d, o->w, wd);
    cuda_dnn_link(g, d, o->y, yd);
    cuda_dnn_set(g, d, o->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    cuda_dnn_set(g, d, o->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    cuda_dnn_operation(g, d);
}
