# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/nn/optim.c core/nn/optim.h core/nn/scaler.c core/nn/scaler.h core/nn/sched.c \
	core/nn/sched.h core/nn/sched_settings.c core/nn/sched_settings.h
