# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/data/dataset.c core/data/dataset.h core/data/dataset_images.c \
	core/data/internal.h core/data/dataset_text.c core/data/loader.c core/data/loader.h core/data/mask.c \
	core/data/mask.h core/data/order.c \
	core/data/order.h core/data/spec.c core/data/spec.h
