# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/actions.c core/run/actions.h core/run/ahead.c core/run/api.c \
	core/run/values/average.c core/run/cache.c core/run/engine.h core/run/exchange.c core/run/exchange.h \
	core/run/exec.c \
	core/run/exec.h core/run/values/fetch.c core/run/values/fetch.h core/run/host_device.c core/run/host_device.h \
	core/run/instance.c core/run/instance.h core/run/island_join.c \
	core/run/island_probe.c core/run/islands.c core/run/islands.h core/run/list.c core/run/list.h \
	core/run/micro.c core/run/prog.c core/run/queue.c core/run/queue.h core/run/remedies.c core/run/remedies.h \
	core/run/micro_request.c core/run/roles.c core/run/run.h core/run/stage.c \
	core/run/stage.h core/run/stored.c core/run/stored.h \
	core/run/tracer.c core/run/tracer.h core/run/update.c core/run/update.h core/run/update_programs.c \
	core/run/update_programs.h core/run/values/compute.c core/run/values/copies.c core/run/values/copies.h \
	core/run/values/far_slices.c core/run/values/far_slices.h core/run/values/fill.c core/run/values/fitted_parts.c \
	core/run/values/home.c core/run/values/home.h core/run/values/masters.c core/run/values/param_hash.c \
	core/run/values/param_layout.c core/run/values/param_values.c core/run/values/params.c core/run/values/params.h \
	core/run/values/sliced_state.c core/run/values/snapshot.c core/run/values/snapshot.h core/run/values/slice_sums.c \
	core/run/values/slice_sums.h core/run/values/state_file.c core/run/values/state_file.h core/run/values/state_buffers.c \
	core/run/values/state_home.h core/run/values/value_source.h core/run/way.h core/run/ways/alone.c \
	core/run/ways/choose.c core/run/ways/deferred.c \
	core/run/ways/excluded.c core/run/ways/far_values.c core/run/ways/gradients.c core/run/ways/island.c core/run/ways/messages.c \
	core/run/ways/norm.c core/run/ways/offloaded.c core/run/ways/power.c \
	core/run/ways/powersgd.c core/run/ways/powersgd.h core/run/ways/powersgd_math.c core/run/ways/powersgd_math.h \
	core/run/ways/publish.c core/run/ways/rounded.c core/run/ways/scattered.c core/run/ways/shared.c core/run/ways/sliced.c \
	core/run/ways/sole.c core/run/ways/ways.h core/run/window_reduce.c
