# SPDX-License-Identifier: Apache-2.0
yokeinclude_HEADERS += include/yoke/transport.h
# transport/op.c is what other transports build upon too.
libyokecore_la_SOURCES += transport/local/internal.h transport/local/local.c transport/local/local.h transport/local/message.c \
	transport/op.c transport/op.h
