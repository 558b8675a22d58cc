# SPDX-License-Identifier: Apache-2.0
if WITH_OPENCL
plugin_LTLIBRARIES += yoke_opencl.la
yoke_opencl_la_SOURCES = backends/opencl/cl_build.c backends/opencl/cl_device.c backends/opencl/env.c backends/opencl/cl_host.c \
	backends/opencl/cl_list.c backends/opencl/cl_memory.c backends/opencl/ocl.h backends/opencl/cl_options.c \
	backends/opencl/cl_place.c backends/opencl/cl_plugin.c backends/opencl/cl_probe.c backends/opencl/cl_program.c \
	backends/opencl/cl_queue.c backends/opencl/cl_shape.c backends/opencl/cl_shape.h backends/opencl/cl_survey.h \
	backends/opencl/cl_watch.c
yoke_opencl_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_opencl_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_opencl_la_LIBADD = libkit.la $(OPENCL_LIBS)

# tries a driver in a process of its own; looked for beside the plugin
plugin_PROGRAMS += yoke-probe-opencl
yoke_probe_opencl_SOURCES = tools/probe_opencl.c
yoke_probe_opencl_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_probe_opencl_LDADD = $(OPENCL_LIBS)
endif
