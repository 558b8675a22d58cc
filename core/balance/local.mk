# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/balance/balance.h core/balance/batch_rows.c core/balance/compare.c core/balance/compare.h \
	core/balance/cost_model.c \
	core/balance/cost_model.h core/balance/fixed.c core/balance/fixed.h core/balance/line.c core/balance/line.h core/balance/owners.c \
	core/balance/policy.c core/balance/policy_inner.h core/balance/policy_phase.c core/balance/policy_probe.c \
	core/balance/policy_settle.c core/balance/policy_shares.c core/balance/policy_steady.c core/balance/policy_trial.c \
	core/balance/recovery.c core/balance/seat.c core/balance/split.c core/balance/trial_schedule.c core/balance/trial_schedule.h
