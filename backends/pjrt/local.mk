# SPDX-License-Identifier: Apache-2.0
# Vendors' libraries are opened at run time over prototypes of our own, so nothing has to be there to build it.
plugin_LTLIBRARIES += yoke_pjrt.la
PJRT_CLIENT = backends/pjrt/api.h backends/pjrt/client.c backends/pjrt/client.h backends/pjrt/exits.h
yoke_pjrt_la_SOURCES = $(PJRT_CLIENT) backends/pjrt/pjrt_coll.c backends/pjrt/pjrt_list.c backends/pjrt/pjrt_memory.c \
	backends/pjrt/pjrt_options.c backends/pjrt/pjrt.h backends/pjrt/pjrt_plugin.c backends/pjrt/pjrt_program.c
yoke_pjrt_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION)
yoke_pjrt_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_pjrt_la_LIBADD = libkit.la -lpthread

# tries a vendor's plugin in a process of its own; looked for beside the plugin
plugin_PROGRAMS += yoke-probe-pjrt
yoke_probe_pjrt_SOURCES = tools/probe_pjrt.c $(PJRT_CLIENT) tools/probe_pjrt_known.c tools/probe_pjrt_known.h
yoke_probe_pjrt_CFLAGS = $(AM_CFLAGS) $(CONVERSION)
yoke_probe_pjrt_LDADD = -lm
