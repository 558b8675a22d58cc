# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/job/settings.c core/job/weights.c
