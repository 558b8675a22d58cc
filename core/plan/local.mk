# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/plan/attention.c core/plan/autocast.c core/plan/away.c core/plan/claim.c core/plan/dump.c \
	core/plan/eight.c core/plan/eight.h core/plan/factor.c \
	core/plan/fuse.c core/plan/fuse_cluster.c core/plan/fuse_cluster.h core/plan/fuse_emit.c \
	core/plan/plan_grad.c core/plan/plan_internal.h core/plan/inverse.c core/plan/lanes.c core/plan/padding.c core/plan/memory.c \
	core/plan/narrow.c core/plan/overlap.c core/plan/place.c core/plan/passes.c core/plan/plan.h core/plan/pulls.c core/plan/recompute.c \
	core/plan/remap.c core/plan/remat.c core/plan/segment.c core/plan/trace.c
