# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/group.c core/group/group.h core/group/transport.c core/group/transport.h
