# SPDX-License-Identifier: Apache-2.0
# Needs nothing of NVIDIA's to be built: its libraries are opened at run time.
plugin_LTLIBRARIES += yoke_cuda.la
yoke_cuda_la_SOURCES = backends/cuda/build.c backends/cuda/coll.c backends/cuda/compile.c backends/cuda/driver.c \
	backends/cuda/driver.h backends/cuda/error.c \
	backends/cuda/host.c backends/cuda/host.h backends/cuda/internal.h backends/cuda/list.c backends/cuda/memory.c \
	backends/cuda/nccl.c backends/cuda/nccl.h backends/cuda/plugin.c backends/cuda/program.c \
	backends/cuda/queue.c
yoke_cuda_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION)
yoke_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_cuda_la_LIBADD = libkit.la
