/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcuda and of NVRTC that are called, with prototypes of our own. So the build needs no toolkit and links nothing of
 * NVIDIA's: both libraries are opened at run time. Types have the names and layouts of cuda.h, and are left to it where it came first;
 * tests/unit/cuda/header.c then compares every prototype.
 */
#ifndef YOKE_BACKENDS_CUDA_DRIVER_H
#define YOKE_BACKENDS_CUDA_DRIVER_H

#include <stddef.h>

#include <yoke/status.h>

#ifndef __cuda_cuda_h__
typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_UNKNOWN = 999
};
enum {
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};
enum { CU_EVENT_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1, CU_MEMHOSTREGISTER_PORTABLE = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
#endif

/* X(member, symbol, parameters); all return a CUresult. */
#define CUDA_DRIVER_TABLE(X)                                                                                                              \
    X(init, cuInit, (unsigned flags))                                                                                                     \
    X(driver_version, cuDriverGetVersion, (int *version))                                                                                 \
    X(error_name, cuGetErrorName, (CUresult code, const char **name))                                                                     \
    X(error_text, cuGetErrorString, (CUresult code, const char **text))                                                                   \
    X(device_count, cuDeviceGetCount, (int *count))                                                                                       \
    X(device_get, cuDeviceGet, (CUdevice *device, int number))                                                                            \
    X(device_name, cuDeviceGetName, (char *name, int bytes, CUdevice device))                                                             \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))                                                               \
    X(device_attribute, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))                                \
    X(device_bus, cuDeviceGetPCIBusId, (char *text, int bytes, CUdevice device))                                                          \
    X(context_state, cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))                                         \
    X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))                                                    \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                                   \
    X(context_push, cuCtxPushCurrent_v2, (CUcontext context))                                                                             \
    X(context_pop, cuCtxPopCurrent_v2, (CUcontext *context))                                                                              \
    X(memory_info, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                                                            \
    X(memory_alloc, cuMemAlloc_v2, (CUdeviceptr *memory, size_t bytes))                                                                   \
    X(memory_free, cuMemFree_v2, (CUdeviceptr memory))                                                                                    \
    X(host_alloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                          \
    X(host_free, cuMemFreeHost, (void *memory))                                                                                           \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                                  \
    X(host_unregister, cuMemHostUnregister, (void *memory))                                                                               \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                            \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                    \
    X(copy_on_device, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                            \
    X(copy_peer, cuMemcpyPeerAsync,                                                                                                       \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream))                    \
    X(stream_new, cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                          \
    X(stream_free, cuStreamDestroy_v2, (CUstream stream))                                                                                 \
    X(stream_wait_event, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                             \
    X(stream_synchronize, cuStreamSynchronize, (CUstream stream))                                                                         \
    X(capture_begin, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                                \
    X(capture_end, cuStreamEndCapture, (CUstream stream, CUgraph *graph))                                                                 \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                      \
    X(graph_launch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                                   \
    X(graph_free, cuGraphDestroy, (CUgraph graph))                                                                                        \
    X(exec_free, cuGraphExecDestroy, (CUgraphExec exec))                                                                                  \
    X(event_new, cuEventCreate, (CUevent * event, unsigned flags))                                                                        \
    X(event_free, cuEventDestroy_v2, (CUevent event))                                                                                     \
    X(event_record, cuEventRecord, (CUevent event, CUstream stream))                                                                      \
    X(event_query, cuEventQuery, (CUevent event))                                                                                         \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                                               \
    X(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                                                              \
    X(module_free, cuModuleUnload, (CUmodule module))                                                                                     \
    X(module_function, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                                   \
    X(launch, cuLaunchKernel,                                                                                                             \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,      \
       unsigned shared_bytes, CUstream stream, void **parameters, void **extra))

typedef struct cuda_driver {
#define CUDA_DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    CUDA_DRIVER_TABLE(CUDA_DRIVER_MEMBER)
#undef CUDA_DRIVER_MEMBER
} cuda_driver;

/* ---- libcuda, opened (driver.c) ---- */

extern cuda_driver cuda; /* filled once cuda_driver_open has said YK_OK and *n is not 0 */

/* Opens libcuda and counts devices; 0 of them, and the reason in the log, if there is no driver. Any thread. */
yk_status cuda_driver_open(int *n);
/* How many of the names of a library, the one of CUDA 13 first, are not for this driver: a library of 13 needs a driver of 13. */
#define CUDA_NAMES_BEFORE_13 (cuda_driver_version() < 13000 ? 1 : 0)
int cuda_driver_version(void); /* 12090: CUDA 12.9; of a driver that has devices */
void cuda_driver_forget(void); /* fini: the library stays, the count is asked for again */

/* ---- NVRTC: compiles CUDA C++ at run time ---- */

#ifndef __NVRTC_H__
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
enum { NVRTC_SUCCESS = 0 };
#endif

#define CUDA_COMPILER_TABLE(X)                                                                                                            \
    X(version, nvrtcVersion, (int *major, int *minor))                                                                                    \
    X(archs_count, nvrtcGetNumSupportedArchs, (int *count))                                                                               \
    X(archs, nvrtcGetSupportedArchs, (int *archs))                                                                                        \
    X(program_new, nvrtcCreateProgram,                                                                                                    \
      (nvrtcProgram * program, const char *text, const char *name, int n_header, const char *const *headers, const char *const *names))  \
    X(program_free, nvrtcDestroyProgram, (nvrtcProgram * program))                                                                        \
    X(compile, nvrtcCompileProgram, (nvrtcProgram program, int n_option, const char *const *options))                                     \
    X(cubin_bytes, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *bytes))                                                              \
    X(cubin, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))                                                                          \
    X(ptx_bytes, nvrtcGetPTXSize, (nvrtcProgram program, size_t *bytes))                                                                  \
    X(ptx, nvrtcGetPTX, (nvrtcProgram program, char *ptx))                                                                                \
    X(log_bytes, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *bytes))                                                           \
    X(log, nvrtcGetProgramLog, (nvrtcProgram program, char *log))

typedef struct cuda_compiler {
#define CUDA_COMPILER_MEMBER(member, symbol, parameters) nvrtcResult(*member) parameters;
    CUDA_COMPILER_TABLE(CUDA_COMPILER_MEMBER)
#undef CUDA_COMPILER_MEMBER
    const char *(*error_text)(nvrtcResult code);
} cuda_compiler;

#endif
