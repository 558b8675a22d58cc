# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/coll/algorithms.c core/coll/algorithms.h core/coll/call.c core/coll/call.h core/coll/coll.c \
	core/coll/coll.h core/coll/comm.c core/coll/comm.h core/coll/comm_hosts.c core/coll/comm_hosts.h core/coll/desc.h \
	core/coll/feed.c core/coll/feed.h core/coll/members.c core/coll/members.h core/coll/msg.c core/coll/msg.h core/coll/msg_columns.c \
	core/coll/msg_columns.h core/coll/msg_feed.c core/coll/msg_feed.h core/coll/msg_gather.c core/coll/msg_gather.h \
	core/coll/msg_kinds.c core/coll/msg_kinds.h core/coll/msg_piece.c core/coll/msg_piece.h core/coll/msg_plane.c \
	core/coll/msg_plane.h core/coll/msg_reduce.c core/coll/msg_reduce.h core/coll/msg_rounds.c core/coll/msg_rounds.h \
	core/coll/plan.c core/coll/plan.h core/coll/pool.c core/coll/pool.h core/coll/progress.c core/coll/progress.h core/coll/reduce.c \
	core/coll/reduce.h core/coll/request.c core/coll/request.h core/coll/shm.h core/coll/shm_attach.c core/coll/shm_block.c \
	core/coll/shm_broadcast.c core/coll/shm_broadcast.h core/coll/shm_comm.c core/coll/shm_comm.h core/coll/shm_internal.h \
	core/coll/shm_slot.c core/coll/shm_slot.h core/coll/shm_wait.c core/coll/slices.c core/coll/slices.h core/coll/solo.c \
	core/coll/solo.h core/coll/state.h core/coll/wire.c core/coll/wire.h
