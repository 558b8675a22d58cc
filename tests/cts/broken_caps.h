/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of broken.c, which includes this: capabilities that cannot be, or that the plugin does not keep. CAPS is defined for these. */
#if defined BREAK_VALUE_ALIGN || defined BREAK_BIND || defined BREAK_COMPILE_MS || defined BREAK_ROW_QUANTUM || \
    defined BREAK_PRODUCT_BITS || defined BREAK_PINS || defined BREAK_CAPS_RESERVED || defined BREAK_MEM_FREE || \
    defined BREAK_UNITS || defined BREAK_MAX_ALLOC || defined BREAK_MEM_CONSTANT || defined BREAK_LEAK_DEVICE || defined BREAK_F16_BITS
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
#elif defined BREAK_F16_BITS
        caps->product_bits = 8; /* right of f32 */
#elif defined BREAK_CAPS_RESERVED
        caps->reserved = 5;
#elif defined BREAK_MEM_FREE
        caps->mem_free = 2 * caps->mem_total;
#elif defined BREAK_MAX_ALLOC /* as the driver says it of any card */
        caps->max_alloc = caps->mem_total + 1;
#elif defined BREAK_MEM_CONSTANT /* all of it, always */
        caps->mem_free = caps->mem_total;
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

#ifdef BREAK_F16_BITS /* products of f16 keep 8 of 11 bits of their operands, as those of f32 may by product_bits */
static void operand_cut(const yk_submit *s, const yk_value *v, uint16_t *kept, bool back)
{
    uint16_t *x = (uint16_t *)(s->slot[v->slot]->memory + s->slot_offset[v->slot] + v->offset);
    for (int64_t i = 0; i < kit_value_count(v); i++) {
        kept[i] = back ? kept[i] : x[i];
        x[i] = back ? kept[i] : x[i] & 0xfff8;
    }
}

/* The operands of a product alone; the suite gets them back as they were. */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    const yk_node *n = g->node;
    const yk_value *a = &g->value[g->index[n->in]], *b = &g->value[g->index[n->in + (n->n_in > 1)]];
    if (g->n_node != 1 || n->op != YK_OP_DOT || a->dtype != YK_F16 || b->dtype != YK_F16 || !kit_value_dense(a) ||
        !kit_value_dense(b))
        return queue_run(q, s, point);
    uint16_t *kept = malloc((size_t)(kit_value_count(a) + kit_value_count(b)) * sizeof *kept);
    operand_cut(s, a, kept, false);
    operand_cut(s, b, kept + kit_value_count(a), false);
    const yk_status st = queue_run(q, s, point);
    operand_cut(s, b, kept + kit_value_count(a), true);
    operand_cut(s, a, kept, true);
    free(kept);
    return st;
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
