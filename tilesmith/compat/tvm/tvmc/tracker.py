"""Reads the address of an RPC tracker from text."""

from __future__ import annotations

import logging

from tilesmith.compat.tvm.tvmc.errors import TVMCException

logger = logging.getLogger("TVMC")

_PORT = 9090


def tracker_host_port_from_cli(rpc_tracker_str: str | None) -> tuple[str | None, int | None]:
    """Return host and port of a text such as ``"localhost:9190"``; the port is 9090 where the text
    names none.
    """
    if not rpc_tracker_str:
        return None, None
    host, _, port = rpc_tracker_str.rpartition(":") if ":" in rpc_tracker_str else (
        rpc_tracker_str, "", str(_PORT),
    )  # fmt: skip
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise TVMCException(
            f"'{rpc_tracker_str}' is not the address of an RPC tracker",
            notes=("write it as HOST:PORT",),
        )
    logger.info("RPC tracker: %s, port %s", host, port)
    return host, int(port)
