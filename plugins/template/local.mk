# SPDX-License-Identifier: Apache-2.0
# The template is built out of tree, against installed headers (tests/cts/template.sh).
EXTRA_DIST += plugins/template/template.c plugins/template/configure.ac plugins/template/Makefile.am
