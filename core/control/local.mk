# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/control/control.h core/control/info.c core/control/internal.h core/control/job.c \
	core/control/job.h core/control/join.c core/control/layout.c core/control/live.c core/control/origin.c \
	core/control/origin.h core/control/stuck.c
