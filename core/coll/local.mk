# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/coll/call.c core/coll/coll.c core/coll/coll.h core/coll/comm.c \
	core/coll/comm_hosts.c core/coll/comm_hosts.h core/coll/feed.c \
	core/coll/internal.h core/coll/msg.c core/coll/msg.h core/coll/msg_feed.c core/coll/msg_gather.c core/coll/msg_pieces.c \
	core/coll/msg_plane.c core/coll/msg_reduce.c core/coll/progress.c core/coll/reduce.c core/coll/request.c \
	core/coll/shm.c core/coll/shm.h \
	core/coll/shm_block.c core/coll/shm_broadcast.c core/coll/shm_comm.c core/coll/shm_comm.h \
	core/coll/shm_internal.h core/coll/slices.c core/coll/slices.h core/coll/solo.c
