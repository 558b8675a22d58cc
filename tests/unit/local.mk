# SPDX-License-Identifier: Apache-2.0
# One folder per layer, one program per file: tests/unit/graph/eval.test is of tests/unit/graph/eval.c.
if WITH_CHECK
UNIT_TESTS += tests/unit/balance/balance.test tests/unit/balance/machines.test tests/unit/balance/policy.test \
	tests/unit/balance/sets.test tests/unit/base/base.test \
	tests/unit/base/cgroup.test tests/unit/base/starved.test tests/unit/coll/reduce.test \
	tests/unit/coll/sealed.test tests/unit/coll/wire.test \
	tests/unit/control/garbage.test \
	tests/unit/control/job.test tests/unit/control/mirror.test tests/unit/control/origin.test tests/unit/cpu/chain.test \
	tests/unit/cpu/gemm.test tests/unit/cpu/nets.test tests/unit/cpu/ops.test tests/unit/cpu/queue.test tests/unit/cpu/rows.test \
	tests/unit/cuda/faults.test tests/unit/cuda/behind.test tests/unit/cuda/coll.test tests/unit/cuda/conv.test \
	tests/unit/cuda/eight.test tests/unit/cuda/flash.test tests/unit/cuda/products.test tests/unit/data/csv.test \
	tests/unit/data/foreign.test tests/unit/data/idx.test tests/unit/data/large.test tests/unit/data/loader.test \
	tests/unit/data/mask.test tests/unit/data/shards.test tests/unit/data/folders.test tests/unit/data/tokenizer.test \
	tests/unit/device/layers.test tests/unit/device/select.test tests/unit/device/topology.test tests/unit/device/transport.test \
	tests/unit/device/wait.test tests/unit/grad/rules.test tests/unit/graph/body.test tests/unit/graph/build.test \
	tests/unit/graph/eval.test tests/unit/graph/golden.test tests/unit/graph/serial.test tests/unit/graph/vectors.test \
	tests/unit/io/cut.test tests/unit/io/gzip.test tests/unit/io/json.test tests/unit/io/labels.test tests/unit/io/safetensors.test \
	tests/unit/io/tier.test tests/unit/io/tier_hung.test tests/unit/io/tree.test tests/unit/job/api.test \
	tests/unit/job/calls.test \
	tests/unit/job/callsite.test tests/unit/job/deep.test tests/unit/job/forks.test tests/unit/job/guest.test \
	tests/unit/job/guest_watch.test tests/unit/job/handle.test tests/unit/job/host.test \
	tests/unit/job/inference.test tests/unit/job/kill.test tests/unit/job/locale.test tests/unit/job/memory.test \
	tests/unit/job/models.test tests/unit/job/other_rows.test \
	tests/unit/job/pack.test tests/unit/job/planned.test tests/unit/job/precision.test tests/unit/job/refused.test \
	tests/unit/job/reopened.test tests/unit/job/reported.test tests/unit/job/resume.test tests/unit/job/sampler.test \
	tests/unit/job/share_wait.test tests/unit/job/states.test tests/unit/kit/cache.test \
	tests/unit/kit/coop.test \
	tests/unit/kit/cpu_shape.test \
	tests/unit/kit/gpu_shape.test tests/unit/kit/island.test tests/unit/kit/left.test tests/unit/kit/library.test \
	tests/unit/kit/lower.test tests/unit/launch/hosts.test \
	tests/unit/local/garbage.test
if WITH_SODIUM
UNIT_TESTS += tests/unit/net/frame.test tests/unit/net/hello.test tests/unit/net/link.test tests/unit/sock/open.test \
	tests/unit/net/mac.test tests/unit/sock/loopback.test tests/unit/sock/tamper.test tests/unit/sock/watch.test
TSAN_TESTS += tests/unit/sock/loopback.test tests/unit/sock/open.test tests/unit/sock/tamper.test \
	tests/unit/sock/watch.test
if WITH_OFI
UNIT_TESTS += tests/unit/ofi/open.test
TSAN_TESTS += tests/unit/ofi/open.test
tests_unit_ofi_open_test_SOURCES = tests/unit/ofi/open.c $(OFI_SOURCES)
tests_unit_ofi_open_test_CFLAGS = $(AM_CFLAGS) $(OFI_CFLAGS)
tests_unit_ofi_open_test_LDADD = $(LDADD) $(OFI_LIBS)
endif
CLANG_TESTS += tests/unit/net/frame.test tests/unit/net/hello.test
endif
UNIT_TESTS += tests/unit/nn/tables.test tests/unit/plan/arena.test tests/unit/plan/away.test tests/unit/plan/nets.test \
	tests/unit/plan/passes.test \
	tests/unit/plan/squares.test tests/unit/plan/work.test tests/unit/run/ahead.test tests/unit/run/list.test \
	tests/unit/run/power.test tests/unit/run/queue.test tests/unit/run/remedies.test \
	tests/unit/run/train.test tests/unit/vulkan/spirv.test
# in builds of their own by ./check: under TSan, and by clang
TSAN_TESTS += tests/unit/cpu/gemm.test tests/unit/cpu/queue.test tests/unit/cuda/faults.test tests/unit/data/loader.test \
	tests/unit/cuda/coll.test tests/unit/cuda/eight.test tests/unit/job/api.test tests/unit/control/garbage.test \
	tests/unit/kit/island.test tests/unit/local/garbage.test tests/unit/run/ahead.test tests/unit/run/train.test
CLANG_TESTS += tests/unit/base/base.test tests/unit/cpu/chain.test tests/unit/cpu/gemm.test tests/unit/cpu/nets.test \
	tests/unit/cpu/ops.test tests/unit/cpu/queue.test tests/unit/cpu/rows.test tests/unit/grad/rules.test tests/unit/graph/eval.test \
	tests/unit/job/api.test tests/unit/kit/cpu_shape.test tests/unit/kit/gpu_shape.test tests/unit/plan/passes.test \
	tests/unit/run/train.test
tests_unit_plan_work_test_SOURCES = tests/unit/plan/work.c tools/plan/work_count.c
tests_unit_balance_policy_test_SOURCES = tests/unit/balance/policy.c tests/unit/balance/world.c
tests_unit_balance_sets_test_SOURCES = tests/unit/balance/sets.c tests/unit/balance/world.c
tests_unit_cpu_gemm_test_SOURCES = tests/unit/cpu/gemm.c backends/cpu/isa/isa_amx_emu.c
tests_unit_cuda_coll_test_LDADD = $(LDADD) -ldl
tests_unit_cuda_faults_test_LDADD = $(LDADD) -ldl
tests_unit_cuda_behind_test_LDADD = $(LDADD) -ldl -lm
tests_unit_cuda_conv_test_LDADD = $(LDADD) -ldl -lm
tests_unit_cuda_flash_test_LDADD = $(LDADD) -ldl -lm
tests_unit_cuda_products_test_LDADD = $(LDADD) -ldl
tests_unit_cuda_eight_test_LDADD = $(LDADD) -ldl
tests_unit_graph_vectors_test_SOURCES = tests/unit/graph/vectors.c tests/unit/graph/vectors_layers.c
# the kernel sources as plain C: unused kernels and scalar conversions are as they are in the dialect
KIT_HOST_CFLAGS = $(AM_CFLAGS) -Wno-unused-function -Wno-psabi -Wno-shadow -Wno-undef
tests_unit_job_reopened_test_LDADD = libtestkit.la $(CHECK_LIBS) -ldl
tests_unit_kit_coop_test_CFLAGS = $(KIT_HOST_CFLAGS) -Wno-vla -Wno-unused-variable
tests_unit_kit_cpu_shape_test_SOURCES = tests/unit/kit/host.c
tests_unit_kit_cpu_shape_test_CFLAGS = $(KIT_HOST_CFLAGS)
tests_unit_kit_gpu_shape_test_SOURCES = tests/unit/kit/host.c
tests_unit_kit_gpu_shape_test_CFLAGS = $(KIT_HOST_CFLAGS) -DKIT_GPU_SHAPE
if WITH_OPENCL
UNIT_TESTS += tests/unit/opencl/fake.test tests/unit/opencl/nn.test tests/unit/opencl/prims.test tests/unit/opencl/traps.test
check_LTLIBRARIES += tests/unit/opencl/bad_icd.la tests/unit/opencl/fake_icd.la tests/unit/opencl/hang_icd.la
tests_unit_opencl_bad_icd_la_LDFLAGS = $(TEST_MODULE)
tests_unit_opencl_fake_icd_la_LDFLAGS = $(TEST_MODULE)
tests_unit_opencl_hang_icd_la_LDFLAGS = $(TEST_MODULE)
tests_unit_opencl_fake_test_LDADD = $(LDADD) $(OPENCL_LIBS)
tests_unit_opencl_nn_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
endif
if WITH_VULKAN
UNIT_TESTS += tests/unit/vulkan/traps.test
check_LTLIBRARIES += tests/unit/vulkan/bad_icd.la tests/unit/vulkan/hang_icd.la tests/unit/vulkan/lost.la
tests_unit_vulkan_lost_la_CFLAGS = $(AM_CFLAGS) $(VULKAN_CFLAGS)
tests_unit_vulkan_lost_la_LDFLAGS = $(TEST_MODULE)
tests_unit_vulkan_lost_la_LIBADD = -ldl
tests_unit_vulkan_bad_icd_la_LDFLAGS = $(TEST_MODULE)
tests_unit_vulkan_hang_icd_la_LDFLAGS = $(TEST_MODULE)
endif
endif
noinst_HEADERS += tests/unit/balance/recorded.h tests/unit/balance/world.h
UNIT_SH = tests/style.sh tests/count.sh tests/api.sh tests/limit.sh tests/pages.sh tests/unit/control/pmix_header.sh \
	tests/unit/graph/op_table.sh tests/unit/cuda/header.sh tests/unit/cuda/nvcc.sh tests/unit/data/commands.sh
dist_check_SCRIPTS += $(UNIT_SH)
TESTS += $(UNIT_SH)
noinst_HEADERS += tests/unit/cuda/case.h tests/unit/kit/case.h
EXTRA_DIST += tests/unit/control/pmix_header.c tests/unit/cuda/header.c tests/unit/cuda/header_cublaslt.c \
	tests/unit/cuda/header_cudnn.c tests/unit/cuda/header_nccl.c \
	scripts/gpu-report scripts/iree-suite scripts/reports scripts/vulkan-suite scripts/style scripts/api scripts/abi-record scripts/count \
	scripts/pages scripts/csource.py compile_flags.txt scripts/ci/aarch64 scripts/ci/abi scripts/ci/clang scripts/ci/distcheck \
	scripts/ci/gcc scripts/ci/lib.sh scripts/ci/sanitizers \
	scripts/packages.sh quickstart autogen.sh
