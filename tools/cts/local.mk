# SPDX-License-Identifier: Apache-2.0
# The conformance suite for plugins and transports.
bin_PROGRAMS += yoke-cts
yoke_cts_SOURCES = tools/cts/abi.c tools/cts/buffer.c tools/cts/busy.c tools/cts/cases.c tools/cts/cases_conv.c tools/cts/cases_map.c \
	tools/cts/cts_check.c tools/cts/cts_coll.c tools/cts/cts_coll.h tools/cts/cts.h tools/cts/cts_data.c tools/cts/elementwise.c \
	tools/cts/elf.c tools/cts/extension.c tools/cts/groups.c tools/cts/leak.c tools/cts/long.c tools/cts/main.c tools/cts/nets.c \
	tools/cts/objects.c tools/cts/offsets.c tools/cts/cts_ops.h tools/cts/cts_order.c tools/cts/cts_primitives.c \
	tools/cts/programs.c tools/cts/cts_queue.c tools/cts/record.c tools/cts/record.h tools/cts/report.c tools/cts/shrink.c \
	tools/cts/tr.h tools/cts/tr_calls.c tools/cts/tr_groups.c tools/cts/tr_memory.c tools/cts/tr_messages.c tools/cts/tr_ranks.c \
	tools/cts/tr_verdict.c tools/cts/tr_waits.c tools/cli.c tools/cli.h tools/unknown_option.c
yoke_cts_LDADD = libyokecore.la
