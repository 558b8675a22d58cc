# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/data/dataset.c core/data/dataset.h core/data/images.c core/data/images.h core/data/kind.c core/data/kind.h \
	core/data/kind_cifar10.c core/data/kind_idx.c core/data/kind_rows.c core/data/kind_text.c core/data/kind_tokens.c \
	core/data/loader.c core/data/loader.h core/data/mask.c core/data/mask.h core/data/options.h core/data/order.c core/data/order.h \
	core/data/shard.c core/data/shard.h core/data/spec.c core/data/spec.h core/data/windows.c core/data/windows.h
