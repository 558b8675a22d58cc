# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/device/ask.c core/device/bind.c core/device/cards.c core/device/compiling.c core/device/compiling.h \
	core/device/cores.c core/device/device.h \
	core/device/hook.c core/device/hook.h core/device/hook_calls.c core/device/hook_coll.c core/device/hook_copy.c \
	core/device/host.c \
	core/device/device_internal.h core/device/layers.c core/device/module.c core/device/module.h core/device/device_nearest.c \
	core/device/device_open.c core/device/pace.c core/device/planning.c core/device/plugin.c core/device/pluginlist.c \
	core/device/pluginname.c core/device/point.c core/device/probe.c core/device/rival.c core/device/rival.h core/device/select.c \
	core/device/simple.c core/device/simple.h core/device/simplerun.c core/device/plugin_table.c core/device/topology.c \
	core/device/transfer.c core/device/transport_load.c core/device/transport_load.h core/device/validate.c
