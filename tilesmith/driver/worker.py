"""A worker process: compiles the kernels that it receives through its pipe.

Started as ``python -m``, with the target to warm up for.
"""

from __future__ import annotations

import gc
import os
import sys
import threading

from tilesmith.support.workers import serve

__all__: list[str] = []

_BEHIND = 5


def _load(arguments: list[str], failed: list[BaseException]) -> None:
    """Import the compiler and warm up, behind the parent, which reads the model meanwhile and for
    which all wait. Linux has such a rank for a thread alone, and lets nobody raise it again.
    """
    try:
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BEHIND)
        from tilesmith.driver.warm_up import warm_up

        warm_up(*arguments)
    except BaseException as error:
        failed.append(error)


def main(arguments: list[str]) -> None:
    """Get ready, then compile until the parent's pipe closes."""
    failed: list[BaseException] = []
    gc.disable()  # nothing that is imported is garbage
    loading = threading.Thread(target=_load, args=(arguments, failed))
    loading.start()
    loading.join()
    if failed:
        raise failed[0]
    gc.freeze()
    gc.set_threshold(50_000)  # a kernel makes many objects, and leaves little garbage
    gc.enable()
    from tilesmith.driver.kernels import handle_job

    serve(handle_job)


if __name__ == "__main__":
    main(sys.argv[1:])
