# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/launch/choose.c core/launch/guard.c core/launch/launch.c core/launch/launch.h \
	core/launch/internal.h core/launch/spawn.c
