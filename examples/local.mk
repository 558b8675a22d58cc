# SPDX-License-Identifier: Apache-2.0
# Complete small programs over the installed header alone; built by `make check`.
check_PROGRAMS += examples/mlp
examples_mlp_SOURCES = examples/mlp.c
examples_mlp_LDADD = libyoke.la
