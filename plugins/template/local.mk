# SPDX-License-Identifier: Apache-2.0
# What a plugin's author copies and builds with lies under $(datadir)/yoke as it does here, so that files find each other: the
# templates, the kit, and a builder of small graphs. They are built out of tree (tests/cts/template.sh).
sdkdir = $(datadir)/yoke
nobase_dist_sdk_DATA = plugins/template/template.c plugins/template/far.c plugins/template/cc.c plugins/template/blas.c \
	plugins/template/plain.c \
	plugins/template/configure.ac plugins/template/Makefile.am $(libkit_la_SOURCES) $(KIT_KERNELS) \
	tests/support/kit.c tests/support/kit.h tests/support/f16.h
nobase_nodist_sdk_DATA = $(KIT_TEXTS)

# The kit, compiled for shared objects: a plugin links it statically (pkg-config --libs yoke-plugin).
kitlibdir = $(libdir)
kitlib_DATA = libyoke_kit.a
CLEANFILES += libyoke_kit.a
libyoke_kit.a: libkit.la
	$(AM_V_GEN)cp .libs/libkit.a $@
