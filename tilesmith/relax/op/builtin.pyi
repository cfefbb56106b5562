"""Made by tools/write_stubs.py from the records of operators; do not edit."""
# fmt: off

from tilesmith.relax.expr import Call as Call
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol

from tilesmith.ir import Op

_P = ParamSpec("_P")

class _Operator(Protocol[_P]):
    op: Op
    __name__: str
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Call: ...

def _operator(function: Callable[_P, Call]) -> _Operator[_P]: ...

@_operator
def alloc_tensor(shape: Any, dtype: Any, runtime_device_index: Any = 0, storage_scope: Any = 'global') -> Call:
    """Return a new tensor with undefined contents."""

@_operator
def stop_lift_params(x: Any) -> Call:
    """Parameters are not transformed ahead of time beyond this point."""
