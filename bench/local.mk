# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += bench/steps bench/peer_step.py
