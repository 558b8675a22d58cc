# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/run.h core/run/inner.h core/run/engine.c core/run/store.c core/run/prog.c \
	core/run/cache.c core/run/exec.c core/run/reduce.c core/run/optim.c core/run/update.c core/run/state.c
