# SPDX-License-Identifier: Apache-2.0
# twice.py soon|late FOLDER COMMAND..: a training that writes to FOLDER gets SIGTERM, and the same signal once more. soon: a millisecond
# later, as its process group. late: one of two ranks gets the first while the other stands still; 0.7 s later the launcher gets the second,
# which it passes on. The exit code is the training's.
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

when, folder, command = sys.argv[1], sys.argv[2], sys.argv[3:]


def ranks(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        one = int(path.split("/")[2])
        try:
            with open(path, "rb") as f:
                if os.getsid(one) == pid and b"YOKE_RANK=" in f.read():
                    found.append(one)
        except OSError:
            pass
    return found


shutil.rmtree(folder, ignore_errors=True)
with open(folder + ".said", "w", encoding="utf-8") as f:
    process = subprocess.Popen(command, start_new_session=True, stdout=f, stderr=f)
while not glob.glob(folder + "/checkpoint-*") and process.poll() is None:  # the first one goes with the second
    time.sleep(0.01)
if when == "soon":
    process.send_signal(signal.SIGTERM)
    time.sleep(0.001)
    os.killpg(process.pid, signal.SIGTERM)
else:
    one, other = ranks(process.pid)
    os.kill(other, signal.SIGSTOP)
    os.kill(one, signal.SIGTERM)
    time.sleep(0.7)
    process.send_signal(signal.SIGTERM)
sys.exit(process.wait() % 256)
