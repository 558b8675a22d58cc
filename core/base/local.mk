# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/base/advance.c core/base/advance.h core/base/byte_order.c core/base/byte_order.h core/base/process/cgroup.c \
	core/base/absent.c core/base/absent.h \
	core/base/process/cgroup.h core/base/clock.h core/base/convert.c core/base/convert.h core/base/error.c core/base/error.h \
	core/base/crc32c.c core/base/crc32c.h core/coll/exact.c core/coll/exact.h core/base/foreign_variables.c \
	core/base/foreign_variables.h core/base/process/guest.c \
	core/base/process/guest.h core/base/hash.c core/base/hash.h core/base/limit.c core/base/limit.h core/base/log.c core/base/log.h \
	core/base/mem.c core/base/mem.h core/base/nearest.c core/base/nearest.h core/base/number.c core/base/number.h core/base/option.c \
	core/base/option.h core/base/option_names.c core/base/option_names.h core/base/philox.c core/base/philox.h core/base/process/reserve.c \
	core/base/process/reserve.h core/base/round.h \
	core/base/process/signals.c core/base/process/signals.h core/base/process/thread_id.c core/base/process/thread_id.h \
	core/base/timed.c core/base/timed.h core/base/word.c core/base/word.h
