/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of broken.c, which includes this: capabilities that cannot be. CAPS is defined for these. */
#if defined BREAK_VALUE_ALIGN || defined BREAK_BIND || defined BREAK_COMPILE_MS || defined BREAK_ROW_QUANTUM || \
    defined BREAK_PRODUCT_BITS || defined BREAK_PINS || defined BREAK_CAPS_RESERVED || defined BREAK_MEM_FREE || \
    defined BREAK_UNITS || defined BREAK_LEAK_DEVICE
#define CAPS
/* What it says of itself cannot be. */
static yk_status bad_caps(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = device_caps(i, caps);
    if (!s && caps->size == sizeof *caps) {
#if defined BREAK_VALUE_ALIGN
        caps->value_align = 48;
#elif defined BREAK_BIND
        caps->max_bind = caps->max_alloc + 1;
#elif defined BREAK_COMPILE_MS
        caps->compile_ms = UINT64_MAX; /* "for ever" */
#elif defined BREAK_ROW_QUANTUM
        caps->row_quantum = (uint64_t)-8;
#elif defined BREAK_PRODUCT_BITS
        caps->product_bits = 53;
#elif defined BREAK_CAPS_RESERVED
        caps->reserved = 5;
#elif defined BREAK_MEM_FREE
        caps->mem_free = 2 * caps->mem_total;
#elif defined BREAK_UNITS
        caps->units = 0;
#elif defined BREAK_LEAK_DEVICE
        caps->mem_free = caps->mem_total - taken;
#else
        caps->flags |= YK_CAP_PINS;
#endif
    }
    return s;
}
#endif

#if defined BREAK_ACCOUNT || defined BREAK_ACCOUNT_SHORT || defined BREAK_ACCOUNT_ALIAS
#define BAD_ACCOUNT
static yk_status bad_account(const yk_program *p, yk_program_memory *m)
{
    static uint64_t times;
    const uint32_t size = m->size < sizeof *m ? m->size : (uint32_t)sizeof *m;
    yk_program_memory own = {.size = size, .argument = 1 << 20, .result = 1 << 20};
    (void)p, (void)times;
#ifdef BREAK_ACCOUNT /* another one for each program */
    own.temporary = 64 * ++times;
#elif defined BREAK_ACCOUNT_ALIAS /* more shared than there is */
    own.alias = 1 << 21;
#endif
#ifdef BREAK_ACCOUNT_SHORT /* writes all of its own struct */
    memcpy(m, &own, sizeof own);
#else
    memcpy(m, &own, size);
#endif
    return YK_OK;
}
#endif
