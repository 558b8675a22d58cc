# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/device/device.h core/device/intern.h core/device/cores.c core/device/topology.c \
	core/device/bind.c core/device/host.c core/device/table.c core/device/nearest.c core/device/plugin.c \
	core/device/pluginlist.c core/device/select.c core/device/open.c core/device/layers.c core/device/hook.h core/device/hook.c \
	core/device/validate.c core/device/probe.c \
	core/device/simple.h core/device/simple.c core/device/simplerun.c
