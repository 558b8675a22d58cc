/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens libcuda, the driver, when the host first asks for devices (cuda_list.c); cuda_build.c asks for its version. A lock makes both safe
 * in any thread. A machine without the driver or a device, or with a driver that cannot begin, has 0 devices. That is no error, and a log
 * line gives the reason. YOKE_CUDA_DRIVER names another library than libcuda.so.1.
 */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cuda/cuda_host.h"
#include "backends/cuda/library.h"

cuda_driver cuda;

static struct {
    pthread_mutex_t lock;
    void *library; /* never closed: its threads and exit handlers do not survive that */
    bool counted;
    int n;
    atomic_int version;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_driver, member)},
static const char *const names[] = {"libcuda.so.1", NULL};
static const cuda_symbol symbols[] = {CUDA_DRIVER_TABLE(SYMBOL) {NULL, 0}};
#undef SYMBOL

/* Under the lock. False, and why in the log: there is no driver that can be used. */
static bool library_open(void)
{
    const char *missing;
    if (driver.library)
        return true;
    driver.library = cuda_library_open("DRIVER", names, symbols, &cuda, &missing);
    if (missing)
        cuda_host->log(1, CUDA_WHO, "no devices: the driver lacks %s; one of CUDA 12 or later is needed", missing);
    else if (!driver.library)
        cuda_host->log(cuda_option("DRIVER") ? 1 : 3, CUDA_WHO, "no devices: there is no NVIDIA driver (%s)", dlerror());
    return driver.library != NULL;
}

/* True if the driver is one of CUDA 12 or later; the log names an older one. */
static bool version_serves(int version)
{
    atomic_store(&driver.version, version);
    if (version < 12000)
        cuda_host->log(1, CUDA_WHO, "no devices: the driver is one of CUDA %d.%d; one of CUDA 12 or later is needed", version / 1000,
                       version % 1000 / 10);
    return version >= 12000;
}

/* Under the lock. Devices that the driver has. An error of the driver is the reason for 0, but not for ever. */
static int devices_count(void)
{
    const char *name = NULL;
    int n = 0, version = 0;
    CUresult rc = cuda.init(0);
    if (!rc)
        rc = cuda.driver_version(&version);
    if (!rc)
        rc = cuda.device_count(&n);
    if (!rc)
        return version_serves(version) ? n : 0;
    if (cuda.error_name(rc, &name) || !name)
        name = "an error without a name";
    cuda_host->log((int)rc == CUDA_ERROR_NO_DEVICE ? 3 : 1, CUDA_WHO, "no devices: the driver says %s (%d)", name, (int)rc);
    return 0;
}

yk_status cuda_driver_open(int *n)
{
    pthread_mutex_lock(&driver.lock);
    if (!driver.counted) {
        driver.n = library_open() ? devices_count() : 0;
        driver.counted = true;
    }
    *n = driver.n;
    pthread_mutex_unlock(&driver.lock);
    return YK_OK;
}

int cuda_driver_version(void)
{
    return atomic_load(&driver.version);
}

void cuda_driver_forget(void)
{
    pthread_mutex_lock(&driver.lock);
    driver.counted = false;
    pthread_mutex_unlock(&driver.lock);
}
