# SPDX-License-Identifier: Apache-2.0
# Complete small programs over the installed header alone, one idea each; built by `make check`, run by tests/cli/examples.sh.
check_PROGRAMS += examples/finetune examples/mlp examples/own_layer examples/own_loop examples/resume examples/serve \
	examples/stream examples/two_devices
examples_finetune_LDADD = libyoke.la
examples_mlp_LDADD = libyoke.la
examples_own_layer_LDADD = libyoke.la
examples_own_loop_LDADD = libyoke.la
examples_resume_LDADD = libyoke.la
examples_serve_LDADD = libyoke.la -lpthread
examples_stream_LDADD = libyoke.la
examples_two_devices_LDADD = libyoke.la
