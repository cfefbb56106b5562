"""Made by tools/write_stubs.py from the table PUBLIC; do not edit."""

from tilesmith.rpc.client import LocalSession as LocalSession
from tilesmith.rpc.client import PopenSession as PopenSession
from tilesmith.rpc.client import RPCSession as RPCSession
from tilesmith.rpc.client import TrackerSession as TrackerSession
from tilesmith.rpc import client as client
from tilesmith.rpc.client import connect as connect
from tilesmith.rpc.client import connect_tracker as connect_tracker
from tilesmith.rpc.client import with_minrpc as with_minrpc
from tilesmith.rpc.server import Server as Server
from tilesmith.rpc import server as server
from tilesmith.rpc.tracker import Tracker as Tracker
from tilesmith.rpc import tracker as tracker

PUBLIC: dict[str, str]
