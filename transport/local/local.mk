# SPDX-License-Identifier: Apache-2.0
yokeinclude_HEADERS += include/yoke/transport.h
# What transports are built upon: operations and tables; matching, for those that carry frames.
TRANSPORT_BASE = transport/base.c transport/base.h transport/transport_op.c transport/transport_op.h transport/transport_watch.c \
	transport/transport_watch.h
TRANSPORT_FRAMES = $(TRANSPORT_BASE) transport/match.c transport/match.h core/net/auth.c core/net/mac.c
# What of core a transport that is a shared object of its own needs.
TRANSPORT_CORE = core/base/error.c core/base/limit.c core/base/log.c core/base/mem.c core/base/nearest.c core/base/number.c \
	core/base/advance.c core/base/foreign_variables.c core/base/option.c core/base/process/signals.c core/base/process/thread_id.c
libyokecore_la_SOURCES += transport/local/local_internal.h transport/local/local.c transport/local/local.h transport/local/local_message.c \
	$(TRANSPORT_BASE) transport/match.c transport/match.h
