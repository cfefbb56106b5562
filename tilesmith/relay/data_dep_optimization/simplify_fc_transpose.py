"""``relay.data_dep_optimization.simplify_fc_transpose``: weights that are stored transposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tilesmith.relay.data_dep_optimization.utils import run_opt_pass
from tilesmith.relay.sparse_weights import as_numpy, search_fc_transpose
from tilesmith.relay.transform.sparse import SimplifyFCTranspose
from tilesmith.runtime.ndarray import array

__all__ = ["convert"]


def convert(func: Any, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a function whose dense layers use ``w.T`` where they used ``transpose(w)``, and its
    parameters.
    """
    params = dict(params)
    names = [name for name in search_fc_transpose(func) if name in params]
    for name in names:
        params[f"{name}.T"] = array(numpy.ascontiguousarray(as_numpy(params, name).T))
    made = run_opt_pass(func, SimplifyFCTranspose(names))
    used = {param.name_hint for param in made.params}
    return made, {
        name: value for name, value in params.items() if name in used or name not in names
    }
