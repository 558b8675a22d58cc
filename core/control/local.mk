# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/control/agent.c core/control/agent.h core/control/bootstrap.c core/control/bootstrap.h \
	core/control/control.h core/control/end.c core/control/gather.c core/control/gather.h core/control/info.c core/control/internal.h \
	core/control/job.c core/control/job.h core/control/join.c core/control/launchers.c core/control/launchers.h core/control/layout.c \
	core/control/live.c core/control/meeting.c core/control/meeting.h core/control/mirror.c core/control/mirror.h core/control/munge.c \
	core/control/munge.h core/control/origin.c core/control/origin.h core/control/origin_record.c core/control/origin_record.h \
	core/control/peers.c core/control/pmi.c core/control/pmi.h core/control/pmix.c core/control/pmix.h core/control/pmix_types.h \
	core/control/rendezvous.c core/control/rendezvous.h core/control/secret.c core/control/secret.h core/control/stuck.c \
	core/control/variables.c core/control/variables.h core/control/waiting.c core/control/waiting.h
