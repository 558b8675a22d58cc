# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/job/agree.c core/job/agree.h core/job/agree_graph.c core/job/agree_graph.h core/job/assign.c \
	core/job/backward.c core/job/batch_size.c core/job/blocks.c core/job/blame.c core/job/blame.h core/job/callsite.c \
	core/job/callsite.h core/job/config_size.c core/job/config_size.h \
	core/job/count.c core/job/count.h core/job/data.c core/job/data_info.c core/job/data_info.h \
	core/job/data_state.c core/job/data_state.h \
	core/job/embed.c \
	core/job/emergency.c core/job/emergency.h core/job/feed.c core/job/feed.h core/job/flush.c core/job/flush.h core/job/handle.c \
	core/job/hash.c core/job/hash.h core/job/host_coll.c core/job/host_value.c core/job/host_value.h core/job/input.c core/job/input.h \
	core/job/job.h core/job/join.c core/job/join.h core/job/local_sgd.c core/job/local_sgd.h core/job/log.c core/job/log.h \
	core/job/main_rank.c core/job/op.h core/job/op_layer.c core/job/op_loss.c core/job/op_math.c core/job/op_norm.c core/job/op_pack.c \
	core/job/op_shape.c core/job/open.c core/job/open.h core/job/operand.c core/job/operand.h core/job/opt.c core/job/opt.h \
	core/job/owned.c core/job/owned.h core/job/pace.c core/job/pace.h core/job/param.c core/job/param.h core/job/place.c core/job/place.h \
	core/job/precision.c \
	core/job/precision.h core/job/ranks.c core/job/read.c core/job/read.h core/job/recipe.c \
	core/job/recipe.h core/job/registered.c core/job/registered.h \
	core/job/resume.c core/job/resume.h core/job/row_ops.c core/job/row_ops.h core/job/sampler.c core/job/save.c core/job/save.h \
	core/job/schedule.c core/job/settings.c core/job/sharding.c core/job/sharding.h core/job/sharding_rules.c core/job/share.c \
	core/job/share.h core/job/share_fixed.c core/job/share_rows.c core/job/share_state.c \
	core/job/state.c core/job/state.h core/job/step.c core/job/step.h \
	core/job/team.h core/job/timeline.c core/job/tokens.c core/job/values.c core/job/values.h core/job/weights.c core/job/window.c \
	core/job/window.h
