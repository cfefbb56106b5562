"""Sessions of each kind, and a library to upload."""

import numpy as np
import pytest

import tilesmith as ts
from tests.rpc import functions_for_sessions
from tilesmith import rpc, te


@pytest.fixture(scope="session")
def process_server():
    functions = functions_for_sessions.register
    with rpc.Server(port=0, key="secret", silent=True, server_init_callback=functions) as server:
        yield server


@pytest.fixture(scope="session")
def thread_server():
    functions = functions_for_sessions.register
    with rpc.Server(port=0, silent=True, no_fork=True, server_init_callback=functions) as server:
        yield server


@pytest.fixture(params=["local", "threads"])
def remote(request):
    """A session; tests may ask for one with a "process" of its own, which takes time to start."""
    if request.param == "local":
        functions_for_sessions.register()
        session = rpc.LocalSession()
    elif request.param == "threads":
        session = rpc.connect("127.0.0.1", request.getfixturevalue("thread_server").port)
    else:
        port = request.getfixturevalue("process_server").port
        session = rpc.connect("127.0.0.1", port, key="secret", session_timeout=60)
    with session:
        yield session


@pytest.fixture
def local():
    functions_for_sessions.register()
    with rpc.LocalSession() as session:
        yield session


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A folder with `add.so` and `add.tar`, whose function `add` adds two arrays."""
    folder = tmp_path_factory.mktemp("library")
    n = te.var("n")
    a, b = [te.placeholder((n,), name=name) for name in "ab"]
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    module = ts.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")
    for suffix in ("so", "tar"):
        module.export_library(folder / f"add.{suffix}")
    return folder


@pytest.fixture
def array():
    return np.random.default_rng(7).random((5, 7), dtype="float32")
