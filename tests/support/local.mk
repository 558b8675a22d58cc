# SPDX-License-Identifier: Apache-2.0
# What tests and benches share. A test is its own file and this library: its line in a local.mk is its name alone, unless it needs
# more (Makefile.am: LDADD).
noinst_LTLIBRARIES += libtestkit.la
libtestkit_la_SOURCES = tests/support/cpu_kit.c tests/support/fakes.c tests/support/graph_serial.c tests/support/kit.c \
	tests/support/opencl_kit.c tests/support/plugin_host.c tests/support/refplugin.c
if WITH_CHECK
libtestkit_la_SOURCES += tests/support/mark.c tests/support/meeting.c tests/support/own_state.c
endif
noinst_HEADERS += tests/support/compiled.h tests/support/cpu_kit.h tests/support/cpu_near.h tests/support/f16.h tests/support/fakes.h \
	tests/support/graph_file.h tests/support/graph_lab.h tests/support/graph_serial.h tests/support/graph_vectors.h \
	tests/support/hosts.h tests/support/kit.h tests/support/loopback.h tests/support/machines.h tests/support/meeting.h \
	tests/support/opencl_kit.h tests/support/own_roles.h tests/support/own_state.h tests/support/plan_lab.h \
	tests/support/peak.h tests/support/plugin_host.h tests/support/ranks.h \
	tests/support/refplugin.h tests/support/run.h tests/support/sanitize.h tests/support/sha256.h tests/support/suite.h
EXTRA_DIST += tests/lsan.supp
