# SPDX-License-Identifier: Apache-2.0
# Needs nothing of NVIDIA's to be built: its libraries are opened at run time. With nvcc (--with-nvcc) kernels are compiled, too.
plugin_LTLIBRARIES += yoke_cuda.la
yoke_cuda_la_SOURCES = backends/cuda/cuda_attention.c backends/cuda/cuda_build.c backends/cuda/cuda_coll.c backends/cuda/compile.c \
	backends/cuda/context.c backends/cuda/cudnn_conv.c backends/cuda/cudnn_conv.h backends/cuda/conv_request.c \
	backends/cuda/cublaslt.c backends/cuda/cublaslt.h backends/cuda/cudnn.c backends/cuda/cudnn.h backends/cuda/dnn.c \
	backends/cuda/dnn.h backends/cuda/dnn_graph.c backends/cuda/dnn_graph.h backends/cuda/driver.c backends/cuda/driver.h \
	backends/cuda/cuda_error.c backends/cuda/fatbin.c backends/cuda/fatbin.h backends/cuda/flash.c backends/cuda/flash.h \
	backends/cuda/cuda_host.c backends/cuda/cuda_host.h backends/cuda/cuda_internal.h backends/cuda/library.c \
	backends/cuda/library.h backends/cuda/cuda_list.c backends/cuda/cuda_memory.c backends/cuda/nccl.c backends/cuda/nccl.h \
	backends/cuda/cuda_plugin.c backends/cuda/product.c backends/cuda/cuda_profile.c backends/cuda/cuda_program.c \
	backends/cuda/cuda_queue.c
yoke_cuda_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(CUDA_FATBINS_FLAGS)
yoke_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_cuda_la_LIBADD = libkit.la

# which units are compiled with it; a test asks this, too
check_PROGRAMS += backends/cuda/fatbin-units
backends_cuda_fatbin_units_SOURCES = backends/cuda/fatbin.c backends/cuda/fatbin.h backends/cuda/fatbin_units.c
backends_cuda_fatbin_units_LDADD = libkit.la
EXTRA_DIST += backends/cuda/fatbins.sh
if WITH_NVCC
CUDA_FATBINS_FLAGS = -DCUDA_FATBINS
$(yoke_cuda_la_OBJECTS): backends/cuda/fatbins.inc
backends/cuda/fatbins.inc: backends/cuda/fatbin-units$(EXEEXT) $(srcdir)/backends/cuda/fatbins.sh
	$(AM_V_GEN)$(srcdir)/backends/cuda/fatbins.sh '$(NVCC)' '$(NVCC_CHIPS)' backends/cuda/fatbins backends/cuda/fatbin-units $@
CLEANFILES += backends/cuda/fatbins.inc
else
CUDA_FATBINS_FLAGS =
endif
