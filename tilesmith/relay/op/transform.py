"""``relay.op.transform``: operators that move, select, repeat and convert elements."""

from tilesmith.relay.op import indexing, movement, signal  # noqa: F401 - they declare operators
from tilesmith.relay.op.view import functions

globals().update(functions())
