"""A worker process: compiles the kernels that it receives through its pipe.

Started as ``python -m``, with the target to warm up for.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from tilesmith.support.workers import serve

__all__: list[str] = []

_BEHIND = 5


def _load(arguments: list[str]) -> None:
    """Import the compiler and warm up, behind the parent, which reads the model meanwhile and for
    which all wait. Linux has such a rank for a thread alone, and lets nobody raise it again.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BEHIND)
    from tilesmith.driver.warm_up import warm_up

    warm_up(*arguments)


def main(arguments: list[str]) -> None:
    """Get ready, then compile until the parent's pipe closes."""
    gc.disable()  # nothing that is imported is garbage
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_load, arguments).result()
    gc.freeze()
    gc.set_threshold(50_000)  # a kernel makes many objects, and leaves little garbage
    gc.enable()
    from tilesmith.driver.kernels import handle_job

    serve(handle_job)


if __name__ == "__main__":
    main(sys.argv[1:])
