# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += bench/steps bench/report bench/cases.py bench/results.py bench/peer_models.py bench/peer_step.py
