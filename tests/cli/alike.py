# SPDX-License-Identifier: Apache-2.0
# alike.py STEPS LOG LOG MOST EARLY LATE: two logs of STEPS steps have the same losses, to a relative EARLY in the first MOST
# steps and to LATE in all; and the same norms of the first gradients, which a rate does not touch: a wrong weight of a rank shows there.
import json
import sys

logs = [[json.loads(line) for line in open(path)] for path in sys.argv[2:4]]
steps, most, early, late = int(sys.argv[1]), int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6])


def differences(key):
    a, b = ([row[key] for row in log if "loss" in row] for log in logs)
    assert len(a) == len(b) == steps, (len(a), len(b))
    return [abs(x - y) / abs(x) for x, y in zip(a, b)]


loss, norm = differences("loss"), differences("grad_norm")
shares = [rank["share"] for rank in logs[1][-1]["shares"]]
said = ("largest relative difference %.1e, %.1e of them in the first %d steps; of the first 3 gradients' norms %.1e; shares %s"
      % (max(loss), max(loss[:most]), min(most, steps), max(norm[:3]), shares))
print(said)
assert max(loss[:most]) <= early and max(loss) <= late, "losses differ: " + said
assert max(norm[:3]) <= max(3e-3, early), "norms of gradients differ: " + said
assert len(shares) >= 2 and min(shares) > 0.02, "a rank has hardly a row: " + said
