# SPDX-License-Identifier: Apache-2.0
# Libraries of vendors, played for tests of what needs their hardware.
check_LTLIBRARIES += tests/fakes/fake_cublaslt.la tests/fakes/fake_cuda.la tests/fakes/fake_cudnn.la tests/fakes/fake_nccl.la \
	tests/fakes/fake_nvrtc.la
tests_fakes_fake_cublaslt_la_SOURCES = tests/fakes/beside.c tests/fakes/beside.h tests/fakes/fake_cuda.h tests/fakes/libcublaslt.c
tests_fakes_fake_cublaslt_la_LDFLAGS = $(TEST_MODULE)
tests_fakes_fake_cublaslt_la_LIBADD = -lm
tests_fakes_fake_cudnn_la_SOURCES = tests/fakes/beside.c tests/fakes/beside.h tests/fakes/fake_cuda.h tests/fakes/libcudnn.c \
	tests/fakes/libcudnn_conv.c tests/fakes/libcudnn_conv.h tests/fakes/libcudnn_graph.c tests/fakes/libcudnn_graph.h \
	tests/fakes/libcudnn_rules.c tests/fakes/libcudnn_rules.h
tests_fakes_fake_cudnn_la_LDFLAGS = $(TEST_MODULE)
tests_fakes_fake_cudnn_la_LIBADD = -lm
tests_fakes_fake_nccl_la_SOURCES = tests/fakes/beside.c tests/fakes/beside.h tests/fakes/fake_cuda.h tests/fakes/libnccl.c
tests_fakes_fake_nccl_la_LDFLAGS = $(TEST_MODULE)
tests_fakes_fake_cuda_la_SOURCES = tests/fakes/fake_cuda.h tests/fakes/libcuda.c tests/fakes/libcuda_memory.c tests/fakes/libcuda_memory.h \
	tests/fakes/libcuda_state.c tests/fakes/libcuda_state.h tests/fakes/libcuda_stream.c tests/fakes/libcuda_stream.h
tests_fakes_fake_cuda_la_LDFLAGS = $(TEST_MODULE)
tests_fakes_fake_nvrtc_la_SOURCES = tests/fakes/fake_cuda.h tests/fakes/libnvrtc.c
tests_fakes_fake_nvrtc_la_LDFLAGS = $(TEST_MODULE)
tests/fakes/libnvrtc.lo: tests/fakes/host.kch
CLEANFILES += tests/fakes/host.kch
EXTRA_DIST += tests/fakes/host.kc tests/fakes/use.sh
