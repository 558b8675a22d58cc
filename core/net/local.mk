# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/net/auth.c core/net/auth.h core/net/bytes.h core/net/frame.c core/net/frame.h core/net/hello.c \
	core/net/hello.h core/net/link.c core/net/link.h core/net/tcp.c core/net/tcp.h core/net/mac.c core/net/mac.h
