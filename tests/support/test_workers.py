import io
import sys
import textwrap
import threading
import time

import pytest

from tilesmith.support.errors import CodegenError, InternalError, ShapeError, WorkerStartError
from tilesmith.support.workers import Worker, WorkerPool, read_message, write_message


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "worker_of_this_test.py").write_text(
        textwrap.dedent(
            """
            import os, time
            from tilesmith.support.errors import ShapeError
            from tilesmith.support.workers import serve

            def handle(request, blobs):
                print("noise on standard output")
                job = request["job"]
                if job == "echo":
                    return request, [blob[::-1] for blob in blobs]
                if job == "pid":
                    return os.getpid(), ()
                if job == "refuse":
                    raise ShapeError("wrong shape", span="x.py:1", notes=("try again",))
                if job == "fail":
                    return 1 // 0, ()
                if job == "die":
                    os.abort()
                if job == "sleep":
                    time.sleep(60)

            serve(handle)
            """
        )
    )
    return "worker_of_this_test"


def test_frames():
    stream = io.BytesIO()
    write_message(stream, {"a": [1, "b"]}, [b"one", b""])
    write_message(stream, None)
    stream.seek(0)
    assert read_message(stream) == ({"a": [1, "b"]}, [b"one", b""])
    assert read_message(stream) == (None, [])
    assert read_message(stream) is None
    whole = stream.getvalue()
    for length in (3, 10, 40):
        with pytest.raises(InternalError):
            read_message(io.BytesIO(whole[:length]))


def test_requests_and_errors(module, capfd):
    worker = Worker(module)
    assert worker.request({"job": "echo", "n": 1}, [b"abc"]) == ({"job": "echo", "n": 1}, [b"cba"])
    with pytest.raises(ShapeError, match="wrong shape\n  x.py:1\n  try again"):
        worker.request({"job": "refuse"})
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        worker.request({"job": "fail"})
    assert worker.alive  # errors do not end it
    worker.close()
    assert not worker.alive
    assert "noise" not in capfd.readouterr().out


def test_death_and_time(module):
    worker = Worker(module)
    with pytest.raises(CodegenError, match="died .signal 6"):
        worker.request({"job": "die"})
    worker = Worker(module)
    begin = time.monotonic()
    with pytest.raises(CodegenError, match="did not finish within 1 seconds"):
        worker.request({"job": "sleep"}, timeout=1)
    assert time.monotonic() - begin < 20 and not worker.alive


def test_a_start_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "worker_without_start.py").write_text(
        "from tilesmith.support.workers import serve\n"
        "def start(): return {}['the table']\n"
        "serve(lambda request, blobs: (request, ()), start)\n"
    )
    worker = Worker("worker_without_start")
    with pytest.raises(WorkerStartError, match="cannot start: KeyError: 'the table'") as error:
        worker.request({"n": 1}, timeout=60)
    assert "worker_without_start.py" in str(error.value)  # the traceback
    assert worker.process.wait(60) == 1


def test_a_worker_stops_at_once(module):
    worker = Worker(module)
    thread = threading.Timer(0.5, worker.stop)
    thread.start()
    begin = time.monotonic()
    with pytest.raises(CodegenError, match="died"):
        worker.request({"job": "sleep"})
    assert time.monotonic() - begin < 30
    thread.join()


def test_pool_replaces_dead_workers(module):
    with WorkerPool(module, 2) as pool:
        echoes = [pool.submit({"job": "echo", "n": n}) for n in range(10)]
        deaths = [pool.submit({"job": "die"}) for _ in range(2)]
        more = [pool.submit({"job": "echo", "n": n}) for n in range(10)]
        assert [future.result(60)[0]["n"] for future in echoes] == list(range(10))
        for death in deaths:
            with pytest.raises(CodegenError):
                death.result(60)
        assert [future.result(60)[0]["n"] for future in more] == list(range(10))
        assert pool.count == 2
    with pytest.raises(InternalError, match="closed"):
        pool.submit({"job": "echo"})


def test_an_unguarded_script_is_not_run_again(module, tmp_path):
    import subprocess

    script = tmp_path / "script.py"
    script.write_text(
        "from tilesmith.support.workers import WorkerPool\n"
        "print('once')\n"
        f"pool = WorkerPool({module!r}, 1)\n"
        "print(pool.submit({'job': 'pid'}).result()[0] > 0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "once\nTrue\n", done.stderr


def test_the_most_urgent_of_the_jobs_that_wait_is_the_first(module):
    done = []
    with WorkerPool(module, count=1) as pool:
        started = pool.submit({"job": "pid"})
        gate = threading.Event()
        # the thread of the worker calls this before it takes the next job
        started.add_done_callback(lambda _: gate.wait(30))
        futures = [
            pool.submit({"job": "echo", "n": name}, urgency=urgency)
            for name, urgency in (("small", 1), ("none", 0), ("large", 9), ("equal", 1))
        ]
        for future in futures:
            future.add_done_callback(lambda one: done.append(one.result()[0]["n"]))
        gate.set()
    assert done == ["large", "small", "equal", "none"]
