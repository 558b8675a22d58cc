# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/job/agree.c core/job/agree.h core/job/blame.c core/job/count.c core/job/data.c \
	core/job/data.h core/job/handle.c core/job/input.c core/job/job.h core/job/log.c core/job/op_layer.c \
	core/job/op_loss.c core/job/op_math.c core/job/op_norm.c core/job/op_pack.c core/job/op_shape.c core/job/open.c \
	core/job/opt.c core/job/param.c core/job/resume.c core/job/resume.h core/job/save.c core/job/settings.c \
	core/job/sharding.c core/job/sharding_rules.c core/job/share.c core/job/share.h core/job/share_rows.c \
	core/job/share_state.c core/job/state.c core/job/state.h core/job/step.c core/job/weights.c
