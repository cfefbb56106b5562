"""A contestant that misbehaves as its first argument says; it speaks the protocol and needs no
library.

Its output is twice the only input, computed in plain numpy.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np


def answer(values):
    print(json.dumps(values), flush=True)


def main(way):
    feed, times = {}, 0
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "prepare":
                if way == "refuses":
                    answer({"error": "ValueError: planted"})
                    continue
                if way == "cannot":
                    answer({"error": "it never could", "not_offered": True})
                    continue
                with np.load(command["feed"]) as arrays:
                    feed = {name: arrays[name] for name in arrays.files}
                answer({"seconds": 0.25})
            case "outputs":
                result = 2 * next(iter(feed.values()))
                result = {"wrong": result + 1, "flat": result.reshape(-1),
                          "nan": result * np.nan}.get(way, result)  # fmt: skip
                path = Path(command["folder"]) / "output0.npy"
                if way == "objects":
                    np.save(path, np.array([{}], object), allow_pickle=True)
                else:
                    np.save(path, result)
                answer({"count": 1})
            case "measure":
                answer({"calls": 3})
            case "run":
                times += 1
                if times == 2 and way == "dies":
                    os.kill(os.getpid(), signal.SIGSEGV)
                if times == 2 and way == "leaves":
                    sys.exit("something went wrong")
                if times == 2 and way == "hangs":
                    time.sleep(600)
                answer({"seconds": 0.006 if way == "slow" else 0.003})


main(sys.argv[1])
