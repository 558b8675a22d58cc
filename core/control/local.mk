# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/control/agent.c core/control/agent.h core/control/start/bootstrap.c core/control/start/bootstrap.h \
	core/control/control.h core/control/end.c core/control/start/assemble.c core/control/start/assemble.h core/control/info.c \
	core/control/control_internal.h core/control/control_job.c core/control/control_job.h core/control/join.c \
	core/control/start/launchers.c core/control/start/launchers.h core/control/layout.c core/control/live.c \
	core/control/start/meeting.c core/control/start/meeting.h core/control/mirror.c core/control/mirror.h core/control/start/munge.c \
	core/control/start/munge.h core/control/start/origin.c core/control/start/origin.h core/control/start/origin_record.c \
	core/control/start/origin_record.h core/control/peers.c core/control/start/pmi.c core/control/start/pmi.h \
	core/control/start/pmix.c core/control/start/pmix.h core/control/start/pmix_types.h core/control/start/rendezvous.c \
	core/control/start/rendezvous.h core/control/start/secret.c core/control/start/secret.h core/control/stuck.c \
	core/control/start/variables.c core/control/start/variables.h core/control/start/waiting.c core/control/start/waiting.h
