"""Builds and loads the fake CUDA driver of `fake_cuda.c`, on which tests run without a GPU."""

import ctypes
import gc
import hashlib
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from tilesmith.runtime.cuda import driver

SOURCE = Path(__file__).with_suffix(".c")


def library_path():
    """Return the path of the driver's library, which is compiled once for each of its sources."""
    name = f"tilesmith-fake-cuda-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir()) / name
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, SOURCE], check=True)
        made.replace(path)
    return path


class FakeDriver:
    """The controls of the fake driver."""

    def __init__(self):
        self.path = library_path()
        self.left = 0
        self.library = ctypes.CDLL(str(self.path))
        self.library.fake_calls.restype = ctypes.c_char_p
        self.library.fake_order.restype = ctypes.c_char_p
        self.library.fake_live.restype = ctypes.c_long
        self.library.fake_events.restype = ctypes.c_long
        self.library.fake_watched.restype = ctypes.c_char_p
        self.library.fake_reset.argtypes = [ctypes.c_int, ctypes.c_long]

    def reset(self, devices=2, bytes_of_device=1 << 40):
        """Forget planted statuses and calls, and what earlier tests have left to lost devices."""
        self.left = self.library.fake_live()
        self.library.fake_reset(devices, bytes_of_device)
        self.watch(-1)

    def plan(self, function, status, after=0):
        """Let a function give a status, once, after some good calls."""
        self.library.fake_plan(function.encode(), status, after)

    def watch(self, parameter):
        """Let launches keep a parameter that is a tensor map."""
        self.library.fake_watch(parameter)

    @property
    def watched(self):
        """What the tensor map of the last launch was made of."""
        return self.library.fake_watched().decode()

    @property
    def live(self):
        """Number of blocks of memory that are not freed."""
        return self.library.fake_live() - self.left

    @property
    def events(self):
        """Number of events that are not destroyed."""
        return self.library.fake_events()

    def take_calls(self):
        """Return the calls since the beginning."""
        return self.library.fake_calls().decode().split("\n")[:-1]

    def take_order(self):
        """Return what streams were given since the beginning: launches, marks and waits."""
        return self.library.fake_order().decode().split("\n")[:-1]


@contextmanager
def on_fake_driver(monkeypatch):
    """Let CUDA's runtime load the fake driver, and forget it afterwards; what earlier tests have
    left goes first.
    """
    made = FakeDriver()
    monkeypatch.setenv("TILESMITH_CUDA_DRIVER", str(made.path))
    gc.collect()
    driver.unload()
    made.reset()
    yield made
    gc.collect()
    driver.unload()
