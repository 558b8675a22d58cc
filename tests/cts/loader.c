/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with a table that the loader must refuse, or with a function that misbehaves: -DSET=MEMBER=VALUE.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

#ifdef UNDEFINED
yk_status missing_function(void);
#endif
#ifndef COUNT
#define COUNT 0
#endif
#define CHOSEN __attribute__((unused)) static

CHOSEN yk_status failing_init(const yk_host *h)
{
    h->fail(WHO, "the driver is too old");
    return YK_E_UNSUPPORTED;
}

CHOSEN yk_status dying_init(const yk_host *h)
{
    (void)h;
    kill(getpid(), SIGKILL);
    return YK_OK;
}

CHOSEN yk_status exiting_init(const yk_host *h)
{
    (void)h;
    exit(0);
}

CHOSEN yk_status hanging_init(const yk_host *h)
{
    (void)h;
    for (;;)
        pause();
}

CHOSEN yk_status wrong_count(uint32_t *n)
{
    host->fail(WHO, "the driver is too old");
    *n = COUNT;
    return COUNT ? YK_OK : YK_E_UNSUPPORTED;
}

CHOSEN yk_status odd_texts(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = device_caps(i, caps);
    memset(caps->name, 0xff, sizeof caps->name);
    memcpy(caps->isa, "a\n\033b", 5);
    return s;
}

CHOSEN yk_status no_caps(uint32_t i, yk_device_caps *caps)
{
    (void)i, (void)caps;
    host->fail(WHO, "the device is asleep");
    return YK_E_DEVICE_LOST;
}

CHOSEN yk_status no_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    (void)dev, (void)desc;
    *b = NULL;
    return YK_OK;
}

CHOSEN yk_status exiting_run(yk_queue *queue, yk_program *program, const yk_submit *how, uint64_t *point)
{
    (void)queue, (void)program, (void)how, (void)point;
    exit(0);
}

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    static struct {
        yk_plugin table;
        void *later[4];
    } t;
    (void)abi;
    t.table = table;
#ifdef LONGER
    t.table.size = sizeof t;
#endif
#ifdef SET
    t.table.SET;
#endif
#ifdef CALLED
    t.table.name = CALLED;
#endif
#ifdef UNDEFINED
    missing_function();
#endif
#ifdef REFUSES
    return NULL;
#else
    return &t.table;
#endif
}
