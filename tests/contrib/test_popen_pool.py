import os
import sys

import pytest

from tests.contrib import functions_for_workers as functions
from tilesmith.contrib.popen_pool import (
    PopenPoolExecutor,
    PopenWorker,
    StatusKind,
    kill_child_processes,
)
from tilesmith.support.errors import TypeMismatchError, UnsupportedError


def test_a_worker_answers_and_raises_and_starts_again():
    worker = PopenWorker()
    worker.send(functions.add, (1,), {"b": 5})
    assert worker.recv() == 6 and worker.is_alive()
    worker.send(functions.fail, ("no",))
    with pytest.raises(ValueError, match="^no$"):
        worker.recv()
    worker.send(functions.sleep, (30,), timeout=0.5)
    with pytest.raises(TimeoutError, match="0.5 seconds"):
        worker.recv()
    worker.send(functions.die)
    with pytest.raises(ChildProcessError, match="exit code 3"):
        worker.recv()
    worker.send(functions.add, (1,))
    assert worker.recv() == 2
    worker.join()
    assert not worker.is_alive()


def test_a_worker_is_used_so_often_and_started_as_told():
    worker = PopenWorker(functions.note, ("ready",), maximum_uses=2)
    found = []
    for _ in range(3):
        worker.send(functions.pid)
        found.append(worker.recv())
    assert found[0] == found[1] != found[2] and os.getpid() not in found
    worker.send(functions.noted)
    assert worker.recv() == ["ready"]
    worker.kill()


def test_a_pool_gives_results_in_order_with_errors_among_them():
    with PopenPoolExecutor(max_workers=2, timeout=5) as pool:
        assert pool.submit(functions.add, 1, b=2).result() == 3
        results = list(pool.map_with_error_catching(functions.sleep, [0.01, "x", 60]))
    kinds = [result.status for result in results]
    assert kinds == [StatusKind.COMPLETE, StatusKind.EXCEPTION, StatusKind.TIMEOUT]
    assert results[0].value == 0.01 and isinstance(results[1].value, TypeError)


def test_what_a_worker_refuses(monkeypatch):
    with pytest.raises(TypeMismatchError, match="before send"):
        PopenWorker().recv()
    with pytest.raises(UnsupportedError, match="standard error"):
        PopenWorker(stdout=open(os.devnull))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeMismatchError, match="cannot be sent"):
        PopenWorker().send(lambda: 1)


def test_children_end():
    worker = PopenWorker()
    worker.send(functions.sleep, (60,))
    while not worker.is_alive():
        pass
    process = worker._worker.process
    kill_child_processes(process.pid)  # it has none
    assert process.poll() is None
    worker.kill()
    assert process.poll() is not None
