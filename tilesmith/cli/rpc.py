"""`tilesmith rpc`: lets other machines open sessions here, and keeps a list of such servers."""

from __future__ import annotations

import click

from tilesmith.cli.interruptions import interruptible
from tilesmith.cli.options import json_option, print_json

_LOCAL = "127.0.0.1"


class HostAndPort(click.ParamType):
    """Parameter type: `host:port` → (host, port)."""

    name = "host:port"

    def convert(self, value: object, param: object, context: object) -> tuple[str, int]:
        """Divide the text at its last colon."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not host or not port.isdigit():
            self.fail(f"'{value}' is not of the form host:port")
        return host.strip("[]"), int(port)


def _listening(port: int, port_end: int):  # type: ignore[no-untyped-def]
    """Return the options of what listens at a port."""

    def declare(command):  # type: ignore[no-untyped-def]
        for option in (
            click.option("--silent", is_flag=True, help="Print nothing."),
            click.option("--port-end", type=int, default=port_end, show_default=True,
                         help="Where the search for a free port ends."),
            click.option("--port", type=int, default=port, show_default=True,
                         help="The first port to try."),
            click.option("--host", default=_LOCAL, show_default=True,
                         help="The address to listen at; 0.0.0.0 lets in other machines."),
        ):  # fmt: skip
            command = option(command)
        return command

    return declare


@click.group("rpc")
def rpc_command() -> None:
    """Run compiled code on other machines.

    Whoever can open a session at a server can run code there: let in only whom you trust.
    """


@rpc_command.command("server")
@_listening(9090, 9199)
@click.option("--tracker", type=HostAndPort(), help="The tracker to offer this machine to.")
@click.option("--key", default="", help="What clients have to know, or ask the tracker for.")
@click.option("--load-library", metavar="PATHS", help="Shared libraries to load first.")
@click.option("--custom-addr", metavar="HOST", help="The address that the tracker tells clients.")
@click.option("--no-fork/--fork", default=False, help="Serve in threads of one process.")
def server_command(
    host: str,
    port: int,
    port_end: int,
    silent: bool,
    tracker: tuple[str, int] | None,
    key: str,
    load_library: str | None,
    custom_addr: str | None,
    no_fork: bool,
) -> None:
    """Serve sessions until interrupted."""
    from tilesmith.rpc.server import Server

    with Server(
        host, port, port_end, tracker_addr=tracker, key=key, load_library=load_library,
        custom_addr=custom_addr, silent=silent, no_fork=no_fork,
    ) as server, interruptible():  # fmt: skip
        server.wait()


@rpc_command.command("tracker")
@_listening(9190, 9199)
def tracker_command(host: str, port: int, port_end: int, silent: bool) -> None:
    """Keep a list of servers and lend them to clients, until interrupted."""
    from tilesmith.rpc.tracker import Tracker

    with Tracker(host, port, port_end, silent) as tracker, interruptible():
        tracker.wait()


@rpc_command.command("query")
@click.option("--host", default=_LOCAL, show_default=True, envvar="TVM_TRACKER_HOST",
              help="The tracker's address.")  # fmt: skip
@click.option("--port", type=int, default=9190, show_default=True, envvar="TVM_TRACKER_PORT",
              help="The tracker's port.")  # fmt: skip
@json_option
def query_command(host: str, port: int, as_json: bool) -> None:
    """Show which servers a tracker knows, which are free, and how many requests wait."""
    from tilesmith.rpc.client import connect_tracker

    tracker = connect_tracker(host, port)
    if as_json:
        print_json(tracker.summary())
    else:
        click.echo(f"Tracker {host}:{port}\n")
        click.echo(tracker.text_summary())
