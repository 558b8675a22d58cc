/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of fake_icd.c is what the other tests take it for: limits are told and kept, times are stretched. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *const source =
    "__kernel void probe(__global float *x) { __local float a[20000]; float t = 0;"
    "  for (int i = 0; i < 20000; i++) a[i] = x[i % 16] + i;"
    "  for (int k = 0; k < 100; k++) for (int i = 0; i < 20000; i++) t += a[(i * 7 + k) % 20000];"
    "  x[get_global_id(0) % 16] = t; }";

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static char icd[64];

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void case_start(void)
{
    cl_platform_id platform;
    cl_int rc;
    const char *build = getenv("YOKE_BUILD");
    snprintf(icd, sizeof icd, "/tmp/yoke-fake-%ld.icd", (long)getpid());
    FILE *f = fopen(icd, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s/tests/unit/opencl/.libs/fake_icd.so\n", build ? build : ".");
    fclose(f);
    setenv("OCL_ICD_VENDORS", icd, 1);
    ck_assert_int_eq(clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    ck_assert_int_eq(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), CL_SUCCESS);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
    queue = clCreateCommandQueue(context, device, 0, &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
}

static void case_stop(void)
{
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    unlink(icd);
}

static cl_kernel kernel_new(cl_mem *mem)
{
    cl_int rc;
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &rc);
    ck_assert_int_eq(clBuildProgram(program, 1, &device, "", NULL, NULL), CL_SUCCESS);
    cl_kernel kernel = clCreateKernel(program, "probe", &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
    *mem = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &rc);
    ck_assert_int_eq(clSetKernelArg(kernel, 0, sizeof *mem, mem), CL_SUCCESS);
    clReleaseProgram(program);
    return kernel;
}

enum { FEW = 4, MANY = 20 }; /* runs of a kernel that the driver slows down, and of others: one of many finds the cores free */

/* The least time of some runs in seconds; *rc of the last. */
static double kernel_run(int runs, cl_int *rc)
{
    cl_mem mem;
    cl_kernel kernel = kernel_new(&mem);
    size_t global = 4, local = 1;
    double least = 1e9;
    for (int i = 0; i < runs; i++) {
        double begin = seconds_now();
        *rc = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
        ck_assert_int_eq(clFinish(queue), CL_SUCCESS);
        least = seconds_now() - begin < least ? seconds_now() - begin : least;
    }
    clReleaseKernel(kernel);
    clReleaseMemObject(mem);
    return least;
}

START_TEST(test_limits)
{
    cl_ulong bytes = 0;
    cl_uint units = 0;
    cl_int rc;
    setenv("OCL_FAKE_LOCAL_KB", "64", 1);
    setenv("OCL_FAKE_UNITS", "8", 1);
    ck_assert_int_eq(clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL), CL_SUCCESS);
    ck_assert_int_eq(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL), CL_SUCCESS);
    ck_assert_uint_eq(bytes, 64 << 10);
    ck_assert_uint_eq(units, 8);
    kernel_run(FEW, &rc);
    ck_assert_int_eq(rc, CL_OUT_OF_RESOURCES);
    setenv("OCL_FAKE_LOCAL_KB", "80", 1);
    kernel_run(FEW, &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
    unsetenv("OCL_FAKE_LOCAL_KB");
    unsetenv("OCL_FAKE_UNITS");
}
END_TEST

/* Far apart, as other programs may take the cores away at any moment. */
START_TEST(test_times)
{
    cl_int rc;
    double plain = kernel_run(MANY, &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
    setenv("OCL_FAKE_SLOW", "60", 1);
    double slow = kernel_run(FEW, &rc);
    ck_assert_int_eq(rc, CL_SUCCESS);
    ck_assert_msg(slow > 5 * plain, "%g s, slowed 60 times %g s", plain, slow);
    setenv("OCL_FAKE_SLOW_UNTIL", "2", 1); /* that many have long been */
    double past = kernel_run(MANY, &rc);
    ck_assert_msg(past < slow / 5, "slowed 60 times %g s, after the last slow kernel %g s", slow, past);
    unsetenv("OCL_FAKE_SLOW_UNTIL");
    setenv("OCL_FAKE_SLOW_GROUP", "256", 1);
    ck_assert(kernel_run(MANY, &rc) < slow / 5);
    unsetenv("OCL_FAKE_SLOW_GROUP");
    unsetenv("OCL_FAKE_SLOW");
    cl_mem mem;
    double begin = seconds_now();
    setenv("OCL_FAKE_BUILD_MS", "300", 1);
    clReleaseKernel(kernel_new(&mem));
    clReleaseMemObject(mem);
    ck_assert(seconds_now() - begin > 0.3);
    unsetenv("OCL_FAKE_BUILD_MS");
}
END_TEST

int main(void)
{
    if (access("/etc/OpenCL/vendors/pocl.icd", R_OK)) {
        printf("1..0 # SKIP PoCL is not installed\n");
        return 0;
    }
    Suite *s = suite_create("opencl_fake");
    TCase *t = tcase_create("driver");
    tcase_add_unchecked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_limits);
    tcase_add_test(t, test_times);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
