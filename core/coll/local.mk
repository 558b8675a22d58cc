# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/coll/algorithms.c core/coll/algorithms.h core/coll/call.c core/coll/call.h core/coll/coll.c \
	core/coll/coll.h core/coll/comm.c core/coll/comm.h core/coll/comm_hosts.c core/coll/comm_hosts.h core/coll/desc.h \
	core/coll/feed.c core/coll/feed.h core/coll/members.c core/coll/members.h core/coll/messages/msg.c core/coll/messages/msg.h \
	core/coll/messages/msg_columns.c core/coll/messages/msg_columns.h core/coll/messages/msg_feed.c core/coll/messages/msg_feed.h \
	core/coll/messages/msg_gather.c core/coll/messages/msg_gather.h core/coll/messages/msg_kinds.c core/coll/messages/msg_kinds.h \
	core/coll/messages/msg_piece.c core/coll/messages/msg_piece.h core/coll/messages/msg_plane.c core/coll/messages/msg_plane.h \
	core/coll/messages/msg_reduce.c core/coll/messages/msg_reduce.h core/coll/messages/msg_rounds.c core/coll/messages/msg_rounds.h \
	core/coll/messages/msg_pull.c core/coll/messages/msg_pull.h core/coll/messages/sealed.c core/coll/messages/sealed.h core/coll/pull.h \
	core/coll/tune.c core/coll/tune.h core/coll/pool.c core/coll/pool.h core/coll/progress.c core/coll/progress.h core/coll/reduce.c \
	core/coll/reduce.h core/coll/request.c core/coll/request.h core/coll/shm/shm.h core/coll/shm/shm_attach.c \
	core/coll/shm/shm_block.c core/coll/shm/shm_broadcast.c core/coll/shm/shm_broadcast.h core/coll/shm/shm_comm.c \
	core/coll/shm/shm_comm.h core/coll/shm/shm_internal.h core/coll/shm/shm_slot.c core/coll/shm/shm_slot.h core/coll/shm/shm_wait.c \
	core/coll/slices.c core/coll/slices.h core/coll/solo.c core/coll/solo.h core/coll/coll_state.h core/coll/wire.c core/coll/wire.h
