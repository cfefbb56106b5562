"""``relay.op.transform``: operators that move, select, repeat and convert elements."""

from tilesmith.relay.op import (  # noqa: F401 - they declare operators
    indexing,
    movement,
    signal,
    sparse_rows,
)
from tilesmith.relay.op.view import functions

globals().update(functions())
