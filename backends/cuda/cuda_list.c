/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of NVIDIA devices, their capabilities, and opening one: its primary context, and its numbers for the kit. The host calls it
 * through the table in cuda_plugin.c; cuda_coll.c asks cuda_has_multicast when the host asks for collectives. Any thread calls it, but
 * device_close comes once for a device. device_open makes the device's context; device_close gives it back.
 */
#include "backends/cuda/cuda_internal.h"
#include "backends/cuda/fatbin.h"

#include <ctype.h>
#include <stdio.h>

#include "plugins/kit/plugin.h"

/* ---- Numbers of a device ---- */

/* A number that the driver knows of a device; *s stays the first failure, and the answer then is 0. */
static int device_number(CUdevice id, int attribute, yk_status *s)
{
    int value = 0;
    const CUresult rc = *s ? CUDA_SUCCESS : cuda.device_attribute(&value, (CUdevice_attribute)attribute, id);
    if (rc)
        *s = cuda_error(rc, "reading a device's capabilities");
    return *s ? 0 : value;
}

static yk_status device_find(uint32_t i, CUdevice *id)
{
    int n = 0;
    yk_status s = cuda_driver_open(&n);
    if (!s)
        s = kit_device_check(cuda_host, CUDA_WHO, i, (uint32_t)n);
    if (s)
        return s;
    const CUresult rc = cuda.device_get(id, (int)i);
    return rc ? cuda_error(rc, "cuDeviceGet") : YK_OK;
}

static int device_sm(CUdevice id, yk_status *s)
{
    const int major = device_number(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, s);
    return 10 * major + device_number(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, s);
}

#define TF32_BITS 11  /* of a significand, with the first one */
#define MULTICAST 132 /* CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, which cuda.h has from 12.1 on */

bool cuda_has_multicast(void)
{
    CUdevice id;
    int n = 0;
    yk_status s = cuda_driver_open(&n);
    for (int i = 0; i < n && !s; i++)
        if ((s = device_find((uint32_t)i, &id)) == YK_OK && device_number(id, MULTICAST, &s) && !s)
            return true;
    return s != YK_OK;
}

static void caps_locality(CUdevice id, yk_device_caps *c)
{
    char bus[32] = "";
    if (cuda.device_bus(bus, sizeof bus, id))
        return;
    for (char *at = bus; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    snprintf(c->locality, sizeof c->locality, "pci:%s", bus);
}

/*
 * Bytes of free memory; 0 if unknown. Only a context tells them, and one costs a good part of a second and of a gigabyte. So only a process
 * that has a context already asks.
 */
static uint64_t memory_free_now(CUdevice id)
{
    CUcontext context = NULL;
    size_t left = 0, total = 0;
    unsigned flags = 0;
    int active = 0;
    if (cuda.context_state(id, &flags, &active) || !active || cuda.context_retain(&context, id))
        return 0;
    if (!cuda.context_push(context)) {
        if (cuda.memory_info(&left, &total))
            left = 0;
        cuda_leave();
    }
    cuda.context_release(id);
    return left;
}

static bool option_is(const char *key, const char *value)
{
    const char *given = cuda_option(key);
    return given && !strcmp(given, value);
}

static yk_status caps_fill(CUdevice id, yk_device_caps *c)
{
    yk_status s = YK_OK;
    size_t bytes = 0;
    int version = 0;
    CUresult rc = cuda.device_name(c->name, sizeof c->name, id);
    if (!rc)
        rc = cuda.device_memory(&bytes, id);
    if (!rc)
        rc = cuda.driver_version(&version);
    if (rc)
        return cuda_error(rc, "reading a device's properties");
    caps_locality(id, c);
    snprintf(c->isa, sizeof c->isa, "sm_%d, CUDA %d.%d driver", device_sm(id, &s), version / 1000, version % 1000 / 10);
    c->flags = YK_CAP_DETERMINISTIC | YK_CAP_PINS | YK_CAP_LONG_SUMS;
    c->mem_total = bytes;
    c->mem_free = memory_free_now(id);
    c->align = CUDA_ALIGN;
    c->units = (uint32_t)device_number(id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &s);
    c->store = KIT_STORE;
    c->compute = KIT_COMPUTE;
    c->product_bits = option_is("TF32", "1") ? TF32_BITS : 0;
    return s;
}

yk_status cuda_device_count(uint32_t *n)
{
    int found = 0;
    const yk_status s = cuda_driver_open(&found);
    *n = (uint32_t)found;
    return s;
}

yk_status cuda_device_caps(uint32_t i, yk_device_caps *caps)
{
    yk_device_caps c = {.size = 0};
    CUdevice id = 0;
    yk_status s = device_find(i, &id);
    if (!s)
        s = caps_fill(id, &c);
    if (!s)
        kit_caps_give(caps, &c);
    return s;
}

/* ---- Open devices ---- */

static uint64_t device_identity(const yk_device *dev)
{
    const uint64_t compiler = cuda_compiler_key() ^ cuda_fatbins_key(); /* a cache of another build may hold units that are built in now */
    const uint64_t key = kit_hash(compiler ? compiler : KIT_HASH_SEED, &dev->sm, sizeof dev->sm);
    return kit_hash(key, CUDA_WHO, sizeof CUDA_WHO);
}

/* The context is current. */
static yk_status origin_make(yk_device *dev)
{
    CUresult rc = cuda.event_new(&dev->origin, CU_EVENT_DEFAULT);
    if (rc)
        return cuda_error(rc, "the event that spans count from");
    rc = cuda.event_record(dev->origin, NULL);
    if (!rc)
        rc = cuda.stream_synchronize(NULL);
    if (rc)
        cuda.event_free(dev->origin);
    return rc ? cuda_error(rc, "the event that spans count from") : YK_OK;
}

/* The context, kept current for nobody. */
static yk_status context_open(yk_device *dev)
{
    yk_status s = YK_OK;
    const CUresult rc = cuda.context_retain(&dev->context, dev->id);
    if (rc)
        return cuda_error(rc, "opening the device");
    if (cuda_enter(dev, &s)) {
        s = origin_make(dev);
        cuda_leave();
    }
    if (s)
        cuda.context_release(dev->id);
    return s;
}

/* Terms of a product by tensor cores that the plugin's own kernels use (plugins/kit/kernels/mma.kc); 0: none. */
static uint32_t mma_of(const yk_device *dev)
{
    const uint32_t terms = option_is("MMA", "0") ? 0 : dev->sm >= 80 ? 16 : dev->sm >= 75 ? 8 : 0;
    cuda_host->log(3, CUDA_WHO, "sm_%d: attention and convolutions use tensor cores for %s", dev->sm,
                   terms == 16 ? "bf16 and fp16 (m16n8k16)" : terms ? "fp16 (m16n8k8)" : "nothing");
    return terms;
}

/* True if cuBLASLt gets products of 8-bit operands as such. */
static bool eight_of(const yk_device *dev)
{
    const bool off = option_is("FP8", "0");
    cuda_host->log(3, CUDA_WHO, "sm_%d: a job of fp8 multiplies %s%s", dev->sm, dev->sm >= 89 && !off ? "in 8 bits" : "in 16 bits",
                   off ? " (YOKE_CUDA_FP8=0)" : dev->sm >= 89 ? "" : "; products of 8 bits begin with sm_89");
    return dev->sm >= 89 && !off;
}

static yk_status memory_fill(yk_device *dev)
{
    size_t bytes = 0;
    const CUresult rc = cuda.device_memory(&bytes, dev->id);
    dev->target.memory = bytes;
    return rc ? cuda_error(rc, "asking how much memory a device has") : YK_OK;
}

static yk_status device_fill(yk_device *dev)
{
    yk_status s = YK_OK;
    dev->target = (kit_target){.host = cuda_host, .plugin = CUDA_WHO, .four = true, .product = cuda_product_take,
                               .attention = cuda_attention_take, .convolution = cuda_convolution_take, .dev = dev};
    dev->target.units = (uint32_t)device_number(dev->id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &s);
    dev->target.max_local = (uint32_t)device_number(dev->id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &s);
    for (int d = 0; d < 3; d++)
        dev->grid[d] = (unsigned)device_number(dev->id, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + d, &s);
    dev->sm = device_sm(dev->id, &s);
    dev->target.mma = mma_of(dev);
    dev->target.eight = eight_of(dev);
    dev->graphs = !option_is("GRAPHS", "0");
    dev->tf32 = option_is("TF32", "1");
    dev->profiles = option_is("PROFILE", "1");
    dev->profile.host = cuda_host;
    if (!s)
        s = memory_fill(dev);
    if (!s)
        s = context_open(dev);
    return s;
}

static void units_start(yk_device *dev)
{
    dev->units = (kit_units){.dev = dev,
                             .target = &dev->target,
                             .compiler = &cuda_units_compiler,
                             .cache = {.host = cuda_host, .plugin = CUDA_WHO, .prefix = CUDA_WHO},
                             .cached = true,
                             .identity = device_identity(dev)};
    kit_units_init(&dev->units);
}

yk_status cuda_device_open(uint32_t i, yk_device **out)
{
    CUdevice id = 0;
    yk_status s = device_find(i, &id);
    if (s)
        return s;
    yk_device *dev = cuda_alloc(sizeof *dev);
    if (!dev)
        return YK_E_MEM;
    dev->id = id;
    s = device_fill(dev);
    if (s) {
        cuda_free(dev);
        return s;
    }
    pthread_mutex_init(&dev->products.lock, NULL);
    pthread_mutex_init(&dev->dnn.lock, NULL);
    pthread_mutex_init(&dev->profile_lock, NULL);
    units_start(dev);
    *out = dev;
    return YK_OK;
}

static void profile_print(yk_device *dev)
{
    char name[100];
    if (cuda.device_name(name, sizeof name, dev->id))
        memcpy(name, CUDA_WHO, sizeof CUDA_WHO);
    kit_profile_end(&dev->profile, name);
}

void cuda_device_close(yk_device *dev)
{
    yk_status s;
    const bool entered = cuda_enter(dev, &s); /* without its context code is freed with it */
    profile_print(dev);
    kit_units_release(&dev->units, entered);
    cuda_products_free(dev);
    cuda_dnn_free(dev);
    if (entered) {
        cuda.event_free(dev->origin);
        cuda_leave();
    }
    cuda.context_release(dev->id);
    pthread_mutex_destroy(&dev->profile_lock);
    cuda_free(dev);
}

uint32_t cuda_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node)
{
    return kit_claims(&dev->target, graph, node);
}
