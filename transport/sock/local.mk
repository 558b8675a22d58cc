# SPDX-License-Identifier: Apache-2.0
# A part of the library for tests, and a shared object of its own, with what it needs of core, for jobs.
SOCK_SOURCES = transport/sock/connect.c transport/sock/sock_internal.h transport/sock/receive.c transport/sock/send.c \
	transport/sock/sock.c transport/sock/sock.h transport/sock/stream.c
libyokecore_la_SOURCES += $(SOCK_SOURCES)
if WITH_SODIUM
plugin_LTLIBRARIES += transport_sock.la
transport_sock_la_SOURCES = $(SOCK_SOURCES) transport/sock/sock_plugin.c $(TRANSPORT_FRAMES) $(TRANSPORT_CORE) core/net/hello.c
transport_sock_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION)
transport_sock_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined -export-symbols-regex \
	'^yk_transport_query$$'
transport_sock_la_LIBADD = $(SODIUM_LIBS)
endif
