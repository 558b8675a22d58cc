# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/cache.c core/run/engine.c core/run/exec.c core/run/hash.c core/run/inner.h \
	core/run/low.c core/run/optim.c core/run/prog.c core/run/reduce.c core/run/roles.c core/run/run.h \
	core/run/state.c core/run/store.c core/run/update.c
