# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/job/trace/agree.c core/job/trace/agree.h core/job/trace/agree_graph.c core/job/trace/agree_graph.h \
	core/job/trace/assign.c core/job/loop/backward.c core/job/session/batch_size.c core/job/trace/blocks.c core/job/trace/blame.c \
	core/job/trace/blame.h core/job/callsite.c core/job/callsite.h core/job/config_size.c core/job/config_size.h \
	core/job/trace/count.c core/job/trace/count.h core/job/loop/data.c core/job/data_info.c core/job/data_info.h \
	core/job/loop/row_padding.c core/job/loop/row_padding.h \
	core/job/checkpoint/data_state.c core/job/checkpoint/data_state.h core/job/embed.c core/job/checkpoint/emergency.c \
	core/job/checkpoint/emergency.h core/job/trace/step_feed.c core/job/trace/step_feed.h core/job/first_values.c core/job/first_values.h \
	core/job/loop/flush.c core/job/loop/flush.h core/job/handle.c core/job/checkpoint/job_hash.c core/job/checkpoint/job_hash.h \
	core/job/session/host_coll.c core/job/trace/host_value.c core/job/trace/host_value.h core/job/input.c core/job/input.h \
	core/job/job.h core/job/team/host_place.c core/job/team/host_place.h \
	core/job/team/job_join.c core/job/team/job_join.h core/job/team/local_sgd.c core/job/team/local_sgd.h \
	core/job/loop/job_log.c core/job/loop/job_log.h core/job/session/main_rank.c core/job/trace/op.h core/job/trace/op_layer.c \
	core/job/trace/op_loss.c core/job/trace/op_math.c core/job/trace/op_norm.c core/job/trace/op_pack.c core/job/trace/op_shape.c \
	core/job/team/coll_use.h core/job/session/open.c core/job/session/open.h core/job/operand.c core/job/operand.h \
	core/job/opt.c core/job/opt.h \
	core/job/owned.c core/job/owned.h core/job/team/rank_pace.c core/job/team/rank_pace.h core/job/param.c core/job/param.h \
	core/job/team/rank_device.c core/job/team/rank_device.h core/job/team/precision.c core/job/team/precision.h \
	core/job/team/ranks.c core/job/loop/read.c core/job/loop/read.h core/job/recipe.c core/job/recipe.h \
	core/job/checkpoint/registered.c core/job/checkpoint/registered.h core/job/checkpoint/resume.c core/job/checkpoint/resume.h \
	core/job/trace/other_rows.c core/job/trace/other_rows.h \
	core/job/trace/row_ops.c core/job/trace/row_ops.h core/job/loop/sampler.c core/job/checkpoint/save.c core/job/checkpoint/save.h \
	core/job/checkpoint/stored_values.c core/job/checkpoint/stored_values.h \
	core/job/schedule.c core/job/session/settings.c core/job/session/standing.c core/job/session/standing.h \
	core/job/trace/sharding.c core/job/trace/sharding.h \
	core/job/trace/sharding_rules.c core/job/team/share.c core/job/team/share.h core/job/team/share_fixed.c \
	core/job/team/share_wait.c core/job/loop/rows_ahead.c core/job/loop/rows_ahead.h \
	core/job/team/share_rows.c core/job/checkpoint/share_state.c core/job/checkpoint/saved_state.c core/job/checkpoint/saved_state.h \
	core/job/step.c core/job/step.h core/job/team.h core/job/session/timeline.c core/job/session/text_ids.c core/job/host_values.c \
	core/job/host_values.h core/job/checkpoint/weights.c core/job/checkpoint/writers.c core/job/checkpoint/writers.h \
	core/job/loop/window.c core/job/loop/window.h
