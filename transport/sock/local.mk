# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += transport/sock/connect.c transport/sock/internal.h transport/sock/receive.c transport/sock/send.c \
	transport/sock/sock.c transport/sock/sock.h
