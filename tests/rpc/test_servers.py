"""Servers and trackers: keys, limits, crashes, and partners that misbehave."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import tilesmith as ts
from tests.rpc import functions_for_sessions
from tilesmith import rpc
from tilesmith.error import (
    ArtifactError,
    RPCError,
    RPCSessionTimeoutError,
    TypeMismatchError,
)
from tilesmith.rpc import channel
from tilesmith.rpc.protocol import GREETING, HEAD, MAGIC, VERSION
from tilesmith.rpc.tracker import PriorityScheduler

HOST = "127.0.0.1"


def pid(session):
    return session.get_function("tests.rpc.process")()


def eventually(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_another_key_is_refused(process_server):
    for key in ("", "Secret", "secret "):
        with pytest.raises(RPCError, match="key is not the one"):
            rpc.connect(HOST, process_server.port, key)


def test_sessions_have_processes_of_their_own_and_end_with_them(process_server):
    first = rpc.connect(HOST, process_server.port, "secret")
    second = rpc.connect(HOST, process_server.port, "secret")
    numbers = pid(first), pid(second)
    assert len({*numbers, os.getpid()}) == 3
    first.close()
    eventually(lambda: not is_alive(numbers[0]))
    assert pid(second) == numbers[1]
    second.close()


def test_sessions_that_begin_together_leave_no_process(process_server):
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(
            lambda _: rpc.connect(HOST, process_server.port, "secret"), range(4)
        ))  # fmt: skip
    assert len({pid(session) for session in sessions}) == 4
    for session in sessions:
        session.close()
    eventually(lambda: len(process_server.workers) == 1)  # the one for the next session


def test_a_crash_ends_one_session_only(process_server):
    with rpc.connect(HOST, process_server.port, "secret") as session:
        with pytest.raises(RPCError, match=r"has ended|was lost"):
            session.get_function("tests.rpc.crash")()
        with pytest.raises(RPCError, match=r"has ended|was lost"):
            session.listdir()
    with rpc.connect(HOST, process_server.port, "secret") as session:
        with pytest.raises(RPCError, match="SystemExit"):
            session.get_function("tests.rpc.exit")()
        assert session.listdir() == []


def test_a_session_has_a_limit(process_server):
    with rpc.connect(HOST, process_server.port, "secret", session_timeout=1.0) as session:
        begin = time.monotonic()
        with pytest.raises(RPCSessionTimeoutError, match="its 1 seconds have passed"):
            session.get_function("tests.rpc.sleep")(60)
        assert time.monotonic() - begin < 10
        with pytest.raises(RPCError, match="seconds have passed"):
            session.listdir()
        eventually(lambda: len(process_server.workers) == 1)  # the one for the next session


def test_a_server_limits_sessions_and_can_be_ended():
    register = functions_for_sessions.register
    server = rpc.Server(port=0, silent=True, timeout=0.5, no_fork=True,
                        server_init_callback=register)  # fmt: skip
    session = rpc.connect(HOST, server.port)
    session.listdir()
    time.sleep(0.7)
    with pytest.raises(RPCError):
        session.listdir()
    server.terminate()
    server.terminate()
    assert server.wait(0)
    with pytest.raises(RPCError, match="no connection"):
        rpc.connect(HOST, server.port)


def test_ending_a_server_ends_its_sessions(library):
    with rpc.Server(port=0, silent=True, load_library=str(library / "add.so")) as server:
        session = rpc.connect(HOST, server.port)
        session.upload(b"x", "file")
    with pytest.raises(RPCError, match="has ended|was lost"):
        session.listdir()


def test_what_keeps_a_server_from_starting_is_said(tmp_path):
    (tmp_path / "bad.so").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"bad\.so"):
        rpc.Server(port=0, silent=True, load_library=str(tmp_path / "bad.so"))
    with pytest.raises(TypeMismatchError, match="another process can import"):
        rpc.Server(port=0, silent=True, server_init_callback=lambda: None)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RPCError, match="no port"):
            rpc.Server(port=port, port_end=port + 1, silent=True, no_fork=True)
        with rpc.Server(port=port, port_end=port + 50, silent=True, no_fork=True) as server:
            assert port < server.port < port + 50
    with pytest.raises(RPCError, match="no connection"):
        rpc.Server(port=0, silent=True, no_fork=True, tracker_addr=(HOST, 1))


def test_sessions_end_with_the_program_of_their_server(tmp_path):
    program = (
        "import os, sys; from tilesmith import rpc; s = rpc.Server(port=0, silent=True); "
        "r = rpc.connect('127.0.0.1', s.port); f = r.connection; "
        "print([w.process.pid for w in s.workers], flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = [int(one) for one in done.stdout.strip("[]\n").split(",")]
    assert numbers
    eventually(lambda: not any(is_alive(number) for number in numbers))


# -- partners that misbehave --------------------------------------------------------------------


@contextlib.contextmanager
def partner(behave):
    """A server that answers a connection with what a function does to it."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.close()
        thread.join(5)


WELCOME = GREETING.pack(MAGIC, VERSION) + bytes(32)


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n" + bytes(100)), "not a partner"),
        (lambda c: c.sendall(GREETING.pack(MAGIC, 99) + bytes(32)), "version 99"),
        (lambda c: None, "closed the connection|was lost"),
        (lambda c: c.sendall(WELCOME[:20]), "was lost"),
        (lambda c: (c.sendall(WELCOME), c.recv(1 << 16)), "refused|was lost"),
        (lambda c: (c.sendall(WELCOME), c.recv(1 << 16), c.sendall(b"\xff" * 64)), "not a message"),
        (
            lambda c: (
                c.sendall(WELCOME), c.recv(1 << 16), c.sendall(HEAD.pack(2, 1, 0, 0, 1 << 40))
            ),
            "allowed",
        ),
    ],
)  # fmt: skip
def test_partners_that_are_none_are_said(behave, message):
    with partner(behave) as port, pytest.raises(RPCError, match=message):
        rpc.connect(HOST, port)


def test_a_silent_partner_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(channel, "HANDSHAKE_SECONDS", 0.2)
    with partner(lambda c: c.recv(1 << 16) and time.sleep(0.6)) as port:
        begin = time.monotonic()
        with pytest.raises(RPCSessionTimeoutError, match="did not answer"):
            rpc.connect(HOST, port)
        assert time.monotonic() - begin < 0.6


@pytest.mark.parametrize(
    "content",
    [b"", b"GET / HTTP/1.1\r\n\r\n", GREETING.pack(MAGIC, VERSION) + bytes(range(200))],
)
def test_clients_that_are_none_do_not_disturb_a_server(thread_server, content):
    with socket.create_connection((HOST, thread_server.port), 5) as connection:
        with contextlib.suppress(OSError):  # the server may have closed it already
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    with rpc.connect(HOST, thread_server.port) as session:
        assert session.listdir() == []


def test_broken_messages_end_the_session_only(thread_server):
    with rpc.connect(HOST, thread_server.port) as session:
        link = session.connection.transport.channel
        link.send_bytes(struct.pack("<BBHIQ", 1, 2, 0, 9, 1 << 50))
        with pytest.raises(RPCError, match="has ended|was lost"):
            session.listdir()
    with rpc.connect(HOST, thread_server.port) as session:
        assert session.listdir() == []


# -- trackers -----------------------------------------------------------------------------------


def test_requests_are_served_by_priority():
    scheduler, served = PriorityScheduler("key"), []

    def taker(name, takes=True):
        return lambda value: served.append((name, value)) or takes

    scheduler.request("user", 1, taker("first"))
    scheduler.request("user", 1, taker("second"))
    scheduler.request("user", 5, taker("gone", takes=False))
    scheduler.request("user", 3, taker("urgent"))
    withdrawn = taker("withdrawn")
    scheduler.request("user", 9, withdrawn)
    scheduler.withdraw(withdrawn)
    assert scheduler.summary() == {"free": 0, "pending": 4}
    scheduler.put("a")
    scheduler.put("b")
    assert served == [("gone", "a"), ("urgent", "a"), ("first", "b")]
    scheduler.put("c")
    scheduler.put("d")
    scheduler.put("e")
    scheduler.remove("d")
    assert scheduler.summary() == {"free": 1, "pending": 0} and scheduler.values() == ["e"]


@pytest.fixture(scope="module")
def tracker():
    with rpc.Tracker(port=0, silent=True) as made:
        yield made


@pytest.fixture(scope="module")
def board(tracker):
    """A server of the key "board"."""
    with rpc.Server(port=0, silent=True, no_fork=True, key="board", custom_addr="localhost",
                    tracker_addr=(HOST, tracker.port)) as server:  # fmt: skip
        yield server


def test_a_tracker_lends_servers(tracker, board):
    client = rpc.connect_tracker(HOST, tracker.port)
    summary = client.summary()
    assert summary["server_info"] == [{"key": "server:board", "addr": ["localhost", board.port]}]
    eventually(lambda: client.summary()["queue_info"]["board"] == {"free": 1, "pending": 0})
    session = client.request("board", session_timeout=30)
    assert session.listdir() == []
    assert client.summary()["queue_info"]["board"] == {"free": 0, "pending": 0}
    assert f"localhost:{board.port}" in client.text_summary()
    with pytest.raises(RPCError, match="no server of the key 'board' was free within 0.2"):
        client.request("board", wait_seconds=0.2)
    with pytest.raises(RPCError, match="it has servers of the keys: board"):
        client.request("other", wait_seconds=0)
    with pytest.raises(RPCError, match="lent by its tracker"):
        rpc.connect(HOST, board.port, "board")
    threading.Timer(0.2, session.close).start()
    with client.request("board", wait_seconds=20) as again:
        assert again.listdir() == []


def test_functions_run_with_requested_sessions(tracker, board):
    client = rpc.connect_tracker(HOST, tracker.port)
    assert client.request_and_run("board", lambda session: session.listdir()) == []
    tries = []

    def fail(session):
        tries.append(session)
        raise RPCError("it failed")

    with pytest.raises(RPCError, match="failed with 2 sessions: it failed"):
        client.request_and_run("board", fail)
    assert len(tries) == 2


def test_servers_that_have_gone_are_forgotten(tracker):
    address = (HOST, tracker.port)
    client = rpc.connect_tracker(*address)
    with rpc.Server(port=0, silent=True, no_fork=True, key="brief", tracker_addr=address):
        assert "server:brief" in client.text_summary()
    eventually(lambda: "brief" not in client.text_summary())


def test_a_tracker_that_has_gone_is_said():
    tracker = rpc.Tracker(port=0, silent=True)
    client = rpc.connect_tracker(HOST, tracker.port)
    tracker.terminate()
    with pytest.raises(RPCError, match="closed the connection|was lost"):
        client.summary()
    client.close()
    with pytest.raises(RPCError, match="is closed"):
        client.summary()
    with pytest.raises(RPCError, match="no connection"):
        rpc.connect_tracker(HOST, tracker.port)


def test_a_server_finds_its_tracker_again(monkeypatch):
    from tilesmith.rpc import tracker_client

    monkeypatch.setattr(tracker_client, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(tracker_client, "RETRY_SECONDS", 0.1)
    with rpc.Tracker(port=0, silent=True) as first:
        port = first.port
        server = rpc.Server(port=0, silent=True, no_fork=True, key="x", tracker_addr=(HOST, port))
    with server, rpc.Tracker(port=port, port_end=port + 1, silent=True) as second:
        eventually(lambda: second.handler.summary()["server_info"])
        with rpc.connect_tracker(HOST, port).request("x", wait_seconds=20) as session:
            assert session.listdir() == []


def test_an_offer_that_nobody_claims_is_renewed(monkeypatch, tracker):
    from tilesmith.rpc import tracker_client
    from tilesmith.rpc.protocol import Operation

    monkeypatch.setattr(tracker_client, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(tracker_client, "UNCLAIMED_SECONDS", 0.3)
    address = (HOST, tracker.port)
    with rpc.Server(port=0, silent=True, no_fork=True, key="lost", tracker_addr=address):
        link = tracker_client.TrackerChannel(*address)
        _, port, token = link.request(Operation.ACQUIRE, "lost", "user", 1, 5.0, wait=5)
        link.close()  # and does not come
        with rpc.connect_tracker(*address).request("lost", wait_seconds=20) as session:
            assert session.listdir() == []
        with pytest.raises(RPCError, match="key is not"):
            rpc.connect(HOST, port, token)


def test_strange_requests_to_a_tracker_are_faults(tracker):
    from tilesmith.rpc.protocol import Operation
    from tilesmith.rpc.tracker_client import TrackerChannel

    link = TrackerChannel(HOST, tracker.port)
    for operation, arguments in (
        (Operation.SUMMARY, [1]), (Operation.ACQUIRE, ["key"]), (Operation.CALL, []),
        (Operation.ANNOUNCE, [1, 2, 3]),
    ):  # fmt: skip
        with pytest.raises(RPCError, match="no request that a tracker knows"):
            link.request(operation, *arguments)
    with pytest.raises(RPCError, match="announces its key"):
        link.request(Operation.OFFER, "token")
    link.close()


# -- from the shell -----------------------------------------------------------------------------


@contextlib.contextmanager
def running(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def port_of(process):
    line = process.stderr.readline()
    assert "listening at" in line, line + process.stderr.read()
    return int(line.rsplit(":", 1)[1])


def test_the_commands(tmp_path):
    compat = ("-m", "tilesmith.compat.tvm", "-m")
    with running(*compat, "tvm.exec.rpc_tracker", "--port", "0", "--json") as tracker:
        port = json.loads(tracker.stdout.readline())["port"]
        address = f"{HOST}:{port}"
        with running("-m", "tilesmith", "rpc", "server", "--port", "0", "--tracker", address,
                     "--key", "shell") as server:  # fmt: skip
            port_of(server)
            query = [sys.executable, *compat, "tvm.exec.query_rpc_tracker", "--port", str(port)]
            shown = subprocess.run([*query, "--json"], capture_output=True, text=True, timeout=60)
            assert shown.returncode == 0 and json.loads(shown.stdout)["server_info"], shown
            with rpc.connect_tracker(HOST, port).request("shell", wait_seconds=30) as session:
                assert session.get_function("runtime.NumThreads")() >= 1
    assert tracker.returncode == server.returncode == 0


def test_users_of_the_old_names_find_everything():
    program = (
        "from tilesmith.compat.tvm import install; install()\n"
        "import tvm, numpy as np\nfrom tvm import rpc\nfrom tvm.contrib import rpc as old\n"
        "from tvm.rpc.base import RPC_SESS_MASK\n"
        "remote = tvm.rpc.LocalSession()\n"
        "assert old.connect is rpc.connect and rpc.client.RPCSession\n"
        "a = tvm.nd.array(np.ones(3), remote.cpu())\n"
        "assert a.device.device_type // RPC_SESS_MASK == 1\n"
        "try: rpc.server.PopenRPCServerState()\n"
        "except tvm.TVMError as error: assert 'rpc.Server' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ts.error.RPCSessionTimeoutError.__mro__[1] is RPCError
