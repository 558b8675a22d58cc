/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU, for tests: libfake_cuda.so stands for libcuda.so.1, libfake_nvrtc.so for libnvrtc.so. Devices have
 * memory of their own (their addresses mean nothing on the host), streams are threads, kernels are the dialect's CUDA text compiled by
 * the system's C++ compiler and run block by block with real barriers. Wrong requests are refused as by the driver.
 *
 * The environment, read at cuInit:
 *   FAKE_CUDA_DEVICES  how many (2)         FAKE_CUDA_MEMORY  bytes of each (1 GiB)
 *   CUDA_VISIBLE_DEVICES   as the driver's: which of them, by number
 *   FAKE_CUDA_SM       compute capability of all (90)
 *   FAKE_CUDA_VERSION  of the driver, as cuDriverGetVersion says it (12090)
 *   FAKE_CUDA_UNITS    multiprocessors of each (2)
 *   FAKE_CUDA_MULTICAST=0   their switch cannot add up, or there is none
 *   FAKE_CUDA_FAIL=n   the n-th call of the driver fails with FAKE_CUDA_CODE (999, unknown)
 *   FAKE_CUDA_LOSE=n   the n-th kernel that is launched loses its device: an illegal address
 *   FAKE_CUDA_HANG=n   the n-th kernel that runs does not end before fake_cuda_release
 *   FAKE_CUDA_CALLS    a file FAKE_CUDA_CALLS.PID gets the name of each call, a line each; not of questions (cuEventQuery)
 *   FAKE_NVRTC_FAIL=n  the n-th call of NVRTC fails
 *   FAKE_CUBLASLT_FAIL=n   the n-th call of cuBLASLt fails (libcublaslt.c)
 *   FAKE_CUDNN_FAIL=n      the n-th call of cuDNN fails (libcudnn.c)
 *   FAKE_NVRTC_CHECK   a real NVRTC: it has to compile all that the fake is given, for each chip of FAKE_NVRTC_ARCHS ("75 90 120")
 */
#ifndef YOKE_TESTS_FAKES_FAKE_CUDA_H
#define YOKE_TESTS_FAKES_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

#define FAKE_EXPORT __attribute__((visibility("default")))

/* For tests that dlopen the fake themselves; any thread. */
FAKE_EXPORT void fake_cuda_fail(uint64_t n, int code); /* the n-th call from now on fails (0: none) */
FAKE_EXPORT void fake_cuda_fail_all(const char *name, int code); /* each call of this function (NULL: of none); the name stays */
FAKE_EXPORT void fake_cuda_set_version(int version); /* version of the driver, from now on */
FAKE_EXPORT uint64_t fake_cuda_calls(void); /* so far */
FAKE_EXPORT uint64_t fake_cuda_live(void);  /* contexts, memory, registrations, streams, events, modules, graphs that were not freed */
FAKE_EXPORT uint64_t fake_cuda_graphs(void);  /* launched so far */
FAKE_EXPORT uint64_t fake_cuda_abandoned(void); /* objects that only the end of their context freed, so far */
FAKE_EXPORT const char *fake_cuda_failed(void); /* the call that was made to fail last, or "" */
FAKE_EXPORT void fake_cuda_release(void); /* lets hung work continue */
FAKE_EXPORT void fake_cuda_hang(uint64_t n); /* the n-th kernel from now on hangs */
FAKE_EXPORT void fake_cuda_lose(uint64_t n); /* the n-th launch from now on loses its device */
FAKE_EXPORT void fake_nvrtc_fail(uint64_t n);
FAKE_EXPORT void fake_nvrtc_set_version(int version); /* 129: 12.9, as it is to begin with */
FAKE_EXPORT uint64_t fake_nvrtc_calls(void);
FAKE_EXPORT void fake_nccl_fail(uint64_t n);
FAKE_EXPORT uint64_t fake_nccl_calls(void);
FAKE_EXPORT void fake_cublaslt_fail(uint64_t n);
FAKE_EXPORT uint64_t fake_cublaslt_calls(void);
FAKE_EXPORT void fake_cublaslt_refuse(int yes);     /* no algorithm for any product, from now on */
FAKE_EXPORT uint64_t fake_cublaslt_live(void);      /* handles and descriptors that were not freed */
FAKE_EXPORT uint64_t fake_cublaslt_products(void);  /* enqueued or recorded so far */
FAKE_EXPORT uint64_t fake_cublaslt_eights(void);    /* among them, with operands of 8 bits */
FAKE_EXPORT uint64_t fake_cublaslt_behinds(void);   /* among them, with an epilogue */
FAKE_EXPORT uint64_t fake_cublaslt_aligned(void);   /* among them, with matrices that suit tensor cores best */
FAKE_EXPORT const char *fake_cublaslt_wrong(void);  /* the last call refused as the caller's error, or "" */

FAKE_EXPORT void fake_cudnn_fail(uint64_t n);
FAKE_EXPORT uint64_t fake_cudnn_calls(void);
FAKE_EXPORT void fake_cudnn_refuse(int yes);       /* no engine for any graph, from now on */
FAKE_EXPORT uint64_t fake_cudnn_live(void);        /* handles and descriptors that were not freed */
FAKE_EXPORT uint64_t fake_cudnn_attentions(void);  /* enqueued or recorded so far, forward and backward */
FAKE_EXPORT uint64_t fake_cudnn_convolutions(void); /* the same */
FAKE_EXPORT const char *fake_cudnn_wrong(void);    /* the last call refused as the caller's error, or "" */

/* For the fake NCCL (libnccl.c, with FAKE_NCCL_FAIL and FAKE_NCCL_HANG of its own), cuBLASLt and cuDNN. */
FAKE_EXPORT int fake_cuda_device(void); /* number of the current context's device; -1: none */
FAKE_EXPORT int fake_cuda_capability(void); /* capability of all devices: FAKE_CUDA_SM, or the last set one */
FAKE_EXPORT void fake_cuda_set_capability(int sm);
FAKE_EXPORT void *fake_cuda_memory(unsigned long long memory, size_t bytes); /* host address of the memory; NULL if it is no device's */
/* A stream calls this when it comes to it. */
FAKE_EXPORT void fake_cuda_call(struct CUstream_st *stream, void (*function)(void *argument), void *argument);

/* ---- Compiled code ---- */

#define FAKE_MAGIC 0x4e494255434b4146ull /* "FAKCUBIN" */

/* A cubin of the fake: this head, then a shared object. */
typedef struct fake_image {
    uint64_t magic, bytes; /* tag and size of the object */
    int32_t arch, ptx;
} fake_image;

/* A kernel of such an object, which has a table `fake_kernels` of them, ended by a NULL name. */
typedef struct fake_kernel {
    const char *name;
    int n_parameter;
    const int *bytes; /* size of each parameter */
    /* Runs all blocks. stacks: 64 KiB for each thread of a block. 0: threads of a block have parted at a barrier. */
    int (*run)(void **parameter, const unsigned grid[3], unsigned threads, char *stacks);
} fake_kernel;

/* Launches one block of a library's kernel, which is recorded, lost and hung like other kernels. Returns a CUresult. */
FAKE_EXPORT int fake_cuda_launch(struct CUstream_st *stream, const fake_kernel *kernel, void **parameters);

#define FAKE_STACK 65536u
#define FAKE_THREADS 1024u
#define FAKE_TAG (1ull << 60) /* in every address of device memory: on the host it leads nowhere */

#endif
