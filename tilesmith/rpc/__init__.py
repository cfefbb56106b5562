"""Runs code on other machines: servers, sessions, trackers.

    server = rpc.Server(key="board")                          # on the other machine
    remote = rpc.connect("127.0.0.1", server.port, "board")   # here

Arrays, functions and modules of a session live at the server; see `client.py`. Whoever can open a
session can run code there; see `server.py`.
"""

from tilesmith.support.lazy import lazy_attributes

PUBLIC: dict[str, str] = {
    "LocalSession": "tilesmith.rpc.client:LocalSession",
    "PopenSession": "tilesmith.rpc.client:PopenSession",
    "RPCSession": "tilesmith.rpc.client:RPCSession",
    "Server": "tilesmith.rpc.server:Server",
    "Tracker": "tilesmith.rpc.tracker:Tracker",
    "TrackerSession": "tilesmith.rpc.client:TrackerSession",
    "client": "tilesmith.rpc.client",
    "connect": "tilesmith.rpc.client:connect",
    "connect_tracker": "tilesmith.rpc.client:connect_tracker",
    "server": "tilesmith.rpc.server",
    "tracker": "tilesmith.rpc.tracker",
    "with_minrpc": "tilesmith.rpc.client:with_minrpc",
}
"""Public name → where it lives."""

__getattr__, __dir__ = lazy_attributes(__name__, PUBLIC)
