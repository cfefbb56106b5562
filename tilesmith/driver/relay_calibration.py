"""``relay.analysis.get_calibration_data``: the tensors that the parts of external compilers see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from tilesmith.driver.relay_executors import create_executor
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.adt import Match
from tilesmith.relay.expr import Call, If, Tuple
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.transform.normal_form import without_lets
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.runtime.devices import cpu
from tilesmith.support.errors import UnsupportedError

__all__ = ["get_calibration_data"]


def get_calibration_data(
    mod: IRModule, data: Mapping[str, Any]
) -> dict[GlobalVar, dict[str, list[Any]]]:
    """Run a partitioned module on the CPU and return, for each function of an external compiler,
    the tensors that enter and leave it: ``{variable: {"inputs": […], "outputs": […]}}``.

    ``data`` has values for the parameters of "main", by name. The functions are compiled by
    Tilesmith, so their compilers need not be there. Raises UnsupportedError where "main" does not
    call each of them once, in any case.
    """
    external = {
        variable.name_hint: variable
        for variable, function in functions_of(mod)
        if function.attrs.get("Compiler")
    }
    if not external:
        return {}
    probe = _with_plain_functions(mod)
    probe["main"] = without_lets(probe["main"], lambda let: False)
    probe = infer_module(probe)
    main: Any = probe["main"]
    calls = _calls_of(main, external)
    values = [value for call in calls.values() for value in (*call.args, call)]
    probe["main"] = Function(main.params, Tuple(values))
    found = create_executor("graph", probe, cpu(), "llvm").evaluate()(**data)
    tensors = _tensors(found)
    collected = {}
    for name, call in calls.items():
        count = sum([_count(arg.checked_type) for arg in call.args])
        inputs = list(islice(tensors, count))
        outputs = list(islice(tensors, _count(call.checked_type)))
        collected[external[name]] = {"inputs": inputs, "outputs": outputs}
    return collected


def _with_plain_functions(mod: IRModule) -> IRModule:
    """Return a module whose functions of external compilers are compiled as all others."""
    mod = mod.shallow_copy()
    for variable, function in functions_of(mod):
        if function.attrs.get("Compiler"):
            mod[variable] = Function(function.params, function.body, function.ret_type)
    return mod


def _calls_of(main: Function, external: Mapping[str, GlobalVar]) -> dict[str, Call]:
    """Return the call of each function of an external compiler, by its name."""
    found: dict[str, Call] = {}
    for node in post_order(main.body, lambda one: not isinstance(one, (Function, If, Match))):
        if not (isinstance(node, Call) and isinstance(node.op, GlobalVar)):
            continue
        name = node.op.name_hint
        if name in found:
            raise UnsupportedError(
                f"'{name}' is called more than once: it has no single set of inputs",
                notes=("PartitionGraph makes a function of its own for each region",),
            )
        if name in external:
            found[name] = node
    missing = [name for name in external if name not in found]
    if missing:
        raise UnsupportedError(
            f"main does not call {', '.join(missing)} in any case",
            notes=("calls in branches and in other functions have no data for each run",),
        )
    return found


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of a value that a run gave."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack += reversed(one)
        else:
            yield one


def _count(type_: Any) -> int:
    """Return how many tensors a value of a type has."""
    fields = getattr(type_, "fields", None)
    return 1 if fields is None else sum([_count(one) for one in fields])
