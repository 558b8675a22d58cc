# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/grad/grad.c core/grad/grad.h core/grad/grad_internal.h core/grad/rules_comp.c \
	core/grad/rules_prim.c core/grad/sums.c
