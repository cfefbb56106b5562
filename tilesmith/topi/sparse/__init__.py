"""Products with sparse matrices, under the names of the libraries' routines.

An operand is a sparse placeholder: anything with the tensors ``data``, ``indices`` and ``indptr``.
"""

from tilesmith.topi.sparse.csr import *  # noqa: F403
