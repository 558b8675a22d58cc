/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with a table that the loader must refuse, chosen by -D.
 */
#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

#ifdef UNDEFINED
yk_status missing_function(void);
#endif
#ifdef FAILS
static yk_status failing_init(const yk_host *h)
{
    h->fail(WHO, "the driver is too old");
    return YK_E_UNSUPPORTED;
}
#endif

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
#ifdef ABI
    t.table.abi = ABI;
#endif
#ifdef SIZE
    t.table.size = SIZE;
#endif
#ifdef FOREIGN
    t.table.sanitizer = "memory";
#endif
#ifdef LACKS
    t.table.LACKS = NULL;
#endif
#ifdef BAD_NAME
    t.table.name = "Bad-Name";
#endif
#ifdef FAILS
    t.table.init = failing_init;
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
