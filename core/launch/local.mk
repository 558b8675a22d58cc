# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/launch/asking.c core/launch/asking.h core/launch/beat.c core/launch/beat.h core/launch/device_choice.c \
	core/launch/device_choice.h core/launch/guard.c core/launch/hosts.c core/launch/hosts.h core/launch/launch_internal.h \
	core/launch/launch.c core/launch/launch.h core/launch/pipe_lines.c core/launch/pipe_lines.h core/launch/node.c \
	core/launch/node.h core/launch/node_io.c core/launch/node_io.h core/launch/own_host.c \
	core/launch/own_host.h core/launch/peer.c core/launch/peer.h core/launch/remote.c \
	core/launch/remote.h core/launch/restart.c core/launch/restart.h core/launch/launch_signals.c core/launch/launch_signals.h \
	core/launch/spawn.c
