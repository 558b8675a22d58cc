# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/group.c core/group/group.h core/group/transport_choice.c core/group/transport_choice.h
