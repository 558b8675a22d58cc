# SPDX-License-Identifier: Apache-2.0
nobase_include_HEADERS += include/yoke/transport.h
libyokecore_la_SOURCES += transport/local/local.h transport/local/layout.h transport/local/layout.c \
	transport/local/job.c transport/local/live.c transport/local/local.c
