"""``relay.op.transform``: operators that move, select, repeat and convert elements."""

from tilesmith.relay.op import indexing, movement  # noqa: F401 - they declare the operators
from tilesmith.relay.op.view import functions

globals().update(functions())
