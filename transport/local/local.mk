# SPDX-License-Identifier: Apache-2.0
yokeinclude_HEADERS += include/yoke/transport.h
libyokecore_la_SOURCES += transport/local/block.c transport/local/job.c transport/local/layout.c \
	transport/local/layout.h transport/local/live.c transport/local/local.c transport/local/local.h \
	transport/local/message.c transport/local/stuck.c transport/local/word.c
