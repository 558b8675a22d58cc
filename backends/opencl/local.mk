# SPDX-License-Identifier: Apache-2.0
if WITH_OPENCL
plugin_LTLIBRARIES += yoke_opencl.la
yoke_opencl_la_SOURCES = backends/opencl/build.c backends/opencl/device.c backends/opencl/env.c backends/opencl/host.c \
	backends/opencl/list.c backends/opencl/memory.c backends/opencl/ocl.h backends/opencl/options.c backends/opencl/place.c \
	backends/opencl/plugin.c backends/opencl/probe.c backends/opencl/program.c backends/opencl/queue.c backends/opencl/shape.c \
	backends/opencl/shape.h backends/opencl/survey.h backends/opencl/watch.c
yoke_opencl_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_opencl_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_opencl_la_LIBADD = libkit.la $(OPENCL_LIBS)

# tries a driver in a process of its own; looked for beside the plugin
plugin_PROGRAMS += yoke-probe-opencl
yoke_probe_opencl_SOURCES = tools/probe_opencl.c
yoke_probe_opencl_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_probe_opencl_LDADD = $(OPENCL_LIBS)
endif
