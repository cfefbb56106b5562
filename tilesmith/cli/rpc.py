"""`tilesmith rpc`: lets other machines open sessions here, and keeps a list of such servers."""

from __future__ import annotations

import click

from tilesmith.cli.interruptions import interruptible
from tilesmith.cli.options import json_option, print_json

_LOCAL = "127.0.0.1"


def _host_and_port(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Divide `host:port` at its last colon."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit():
        raise click.BadParameter(f"'{value}' is not of the form host:port")
    return host.strip("[]"), int(port)


_host_option = click.option(
    "--host",
    default=_LOCAL,
    show_default=True,
    help="The address to listen at; 0.0.0.0 lets in other machines.",
)
_silent_option = click.option("--silent", is_flag=True, help="Print nothing.")
_port_end_option = click.option("--port-end", type=int, default=9199, show_default=True,
                                help="Where the search for a free port ends.")  # fmt: skip


@click.group("rpc")
def rpc_command() -> None:
    """Run compiled code on other machines.

    Whoever can open a session at a server can run code there: let in only whom you trust. Each of
    the commands below has --json.
    """


@rpc_command.command("server")
@_host_option
@click.option("--port", type=int, default=9090, show_default=True, help="The first port to try.")
@_port_end_option
@_silent_option
@click.option(
    "--tracker",
    metavar="HOST:PORT",
    callback=_host_and_port,
    help="The tracker to offer this machine to.",
)
@click.option("--key", default="", help="What clients have to know, or ask the tracker for.")
@click.option("--load-library", metavar="PATHS", help="Shared libraries to load first.")
@click.option("--custom-addr", metavar="HOST", help="The address that the tracker tells clients.")
@click.option("--no-fork/--fork", default=False, help="Serve in threads of one process.")
@json_option
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
    as_json: bool,
) -> None:
    """Serve sessions until interrupted."""
    from tilesmith.rpc.server import Server

    with Server(
        host, port, port_end, tracker_addr=tracker, key=key, load_library=load_library,
        custom_addr=custom_addr, silent=silent, no_fork=no_fork,
    ) as server, interruptible():  # fmt: skip
        if as_json:
            print_json({"host": host, "port": server.port})
        server.wait()


@rpc_command.command("tracker")
@_host_option
@click.option("--port", type=int, default=9190, show_default=True, help="The first port to try.")
@_port_end_option
@_silent_option
@json_option
def tracker_command(host: str, port: int, port_end: int, silent: bool, as_json: bool) -> None:
    """Keep a list of servers and lend them to clients, until interrupted."""
    from tilesmith.rpc.tracker import Tracker

    with Tracker(host, port, port_end, silent) as tracker, interruptible():
        if as_json:
            print_json({"host": host, "port": tracker.port})
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
