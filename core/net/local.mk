# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/net/auth.c core/net/auth.h core/net/bytes.h core/net/frame.c core/net/frame.h core/net/hello.c \
	core/net/hello.h
