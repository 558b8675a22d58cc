# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/api.c core/run/arena.c core/run/arena.h core/run/average.c core/run/average.h core/run/cache.c \
	core/run/compute.c core/run/copies.c core/run/copies.h core/run/engine.h core/run/exchange.c core/run/exchange.h core/run/exec.c \
	core/run/exec.h core/run/fetch.c core/run/fetch.h core/run/fill.c core/run/hash.c core/run/home.c core/run/home.h core/run/island.c \
	core/run/island.h core/run/island_join.c core/run/island_join.h core/run/island_probe.c \
	core/run/layout.c core/run/masters.c core/run/micro.c core/run/optim.c core/run/optim.h core/run/params.c core/run/params.h \
	core/run/power.c core/run/power.h core/run/power_math.c core/run/power_math.h core/run/prog.c core/run/queue.c core/run/queue.h \
	core/run/reduce.c core/run/roles.c core/run/run.h core/run/snapshot.c core/run/snapshot.h core/run/stage.c core/run/stage.h \
	core/run/state.c core/run/tracer.c \
	core/run/tracer.h core/run/update.c core/run/update.h core/run/values.c core/run/way.h core/run/ways/alone.c core/run/ways/choose.c \
	core/run/ways/excluded.c core/run/ways/gradients.c core/run/ways/island.c core/run/ways/messages.c core/run/ways/norm.c \
	core/run/ways/power.c core/run/ways/publish.c core/run/ways/rounded.c core/run/ways/shared.c core/run/ways/sole.c \
	core/run/ways/ways.h
