# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/call.c core/group/collect.c core/group/feed.c core/group/group.c \
	core/group/group.h core/group/inner.h
