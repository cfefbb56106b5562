"""Shape functions: tensor expressions that compute the sizes of results from those of arguments.

An operator's own (``FShapeFunc``) is asked first; else its type inference tells the sizes, as
expressions of the ones that are not known until the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import IntImm, Op, PrimExpr, const
from tilesmith.ir.operators import cast
from tilesmith.ir.types import TupleType
from tilesmith.relax.expr import Var as GraphVar
from tilesmith.relax.relations import infer_call
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.op.open_broadcast import either, fitting_info
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import Select
from tilesmith.tir.functor import substitute
from tilesmith.tir.unknown import Any as AnySize

__all__ = ["shape_function"]


def shape_function(function: Function) -> tuple[list[te.Tensor], list[te.Tensor]]:
    """Return the tensors that go in and out: a vector of int64 for each tensor. A parameter whose
    value is needed goes in as it is.
    """
    made = _Shapes(function)
    result = made.shapes[id(function.body)]
    return made.inputs, result if isinstance(result, list) else [result]


class _Shapes:
    """Makes the vectors of sizes of all values of a function."""

    def __init__(self, function: Function) -> None:
        self.needed = _needed_values(function)
        self.inputs: list[te.Tensor] = []
        self.shapes: dict[int, Any] = {}
        self.values: dict[int, te.Tensor] = {}
        for param in function.params:
            self.shapes[id(param)] = self._parameter(param, param.checked_type, param.name_hint)
        for node in post_order(function.body):
            if id(node) not in self.shapes and not isinstance(node, Op):
                self.shapes[id(node)] = self._shape(node)

    def _parameter(self, param: Any, type_: Any, name: str) -> Any:
        if isinstance(type_, TupleType):
            return [self._parameter(None, one, f"{name}_{n}") for n, one in enumerate(type_.fields)]
        if param is not None and id(param) in self.needed:
            value = te.placeholder(list(type_.shape), type_.dtype, name=name)
            self.inputs.append(value)
            self.values[id(param)] = value
            return _vector([_constant(size) for size in type_.shape], f"{name}_shape")
        vector = te.placeholder((len(type_.shape),), "int64", name=f"{name}_shape")
        self.inputs.append(vector)
        return vector

    def _shape(self, node: Any) -> Any:
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node)
        if isinstance(node, Tuple):
            return [self.shapes[id(one)] for one in node.fields]
        if isinstance(node, TupleGetItem):
            return self.shapes[id(node.tuple_value)][node.index]
        if isinstance(node, Constant):
            sizes = [const(int(size), "int64") for size in node.data.shape]
            return _vector(sizes, "constant_shape")
        raise UnsupportedError(f"a {type(node).__name__} has no shape function")

    def _call(self, call: Call) -> Any:
        own = call.op.get_attr("FShapeFunc")
        if own is None:
            return self._inferred(call)
        type_: Any = call.checked_type
        results: Any = type_.fields if isinstance(type_, TupleType) else [type_]
        ranks = [const(len(one.shape), "int32") for one in results]
        inputs: list[te.Tensor] = []
        for arg, depends in zip(call.args, _dependence(call)):
            found = self.values[id(arg)] if depends else self.shapes[id(arg)]
            inputs += found if isinstance(found, list) else [found]
        made = list(own(call.attrs, inputs, ranks))
        return made if isinstance(type_, TupleType) else made[0]

    def _inferred(self, call: Call) -> Any:
        """Return the sizes that type inference tells, over the sizes of the arguments."""
        known: dict[Any, PrimExpr] = {}
        args = [self._argument(arg.checked_type, self.shapes[id(arg)], known) for arg in call.args]
        stood = Call(call.op, args, call.attrs)
        info = infer_call(stood)
        if any(isinstance(size, AnySize) for size in _all_sizes(info)) and call.op.spec.translate:
            info = fitting_info(call.op.spec.translate(call.attrs, *args), either)
        return self._sizes_of(call, info, known)

    def _argument(self, type_: Any, vector: Any, known: dict[Any, PrimExpr]) -> Any:
        """Return a stand-in for an argument, whose open sizes are variables with known values."""
        if isinstance(type_, TupleType):
            fields = zip(type_.fields, vector)
            return Tuple([self._argument(one, each, known) for one, each in fields])
        sizes: list[Any] = []
        for axis, size in enumerate(type_.shape):
            if isinstance(size, IntImm):
                sizes.append(_constant(size))
                continue
            variable = te.var(f"size_{len(known)}", "int64")
            known[variable] = vector[axis].asobject()
            sizes.append(variable)
        return GraphVar("argument", TensorStructInfo(sizes, type_.dtype), dialect="relax")

    def _sizes_of(self, call: Call, info: Any, known: dict[Any, PrimExpr]) -> Any:
        if isinstance(info, TupleStructInfo):
            return [self._sizes_of(call, one, known) for one in info.fields]
        values = getattr(getattr(info, "shape", None), "values", None)
        if values is None:
            raise UnsupportedError(
                f"the sizes of the result of {call.op.name} depend on data",
                notes=("register_shape_func(name, True, function) states how",),
            )
        sizes = [substitute(cast("int64", size), known) for size in values]
        return _vector(sizes, f"{call.op.name.replace('.', '_')}_shape")


def _all_sizes(info: Any) -> list[Any]:
    if isinstance(info, TupleStructInfo):
        return [size for field in info.fields for size in _all_sizes(field)]
    return list(getattr(getattr(info, "shape", None), "values", None) or ())


def _needed_values(function: Function) -> set[int]:
    """Return the parameters whose values shape functions need."""
    params = {id(param) for param in function.params}
    needed: set[int] = set()
    for node in post_order(function.body):
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.get_attr("FShapeFunc"):
            for arg, depends in zip(node.args, _dependence(node)):
                if depends and id(arg) not in params:
                    raise UnsupportedError(
                        f"the shape function of {node.op.name} needs a value that is computed",
                        notes=("only parameters can be given to it",),
                    )
                needed.update({id(arg)} if depends else ())
    return needed


def _dependence(call: Call) -> Sequence[bool]:
    """Return for each argument whether the shape function gets its value."""
    stated = list(call.op.get_attr("TShapeDataDependent") or [False])
    return stated * len(call.args) if len(stated) == 1 else stated


def _constant(size: Any) -> PrimExpr:
    if not isinstance(size, (int, IntImm)):
        raise UnsupportedError("the sizes of a tensor whose value is needed have to be known")
    return const(int(size), "int64")


def _vector(sizes: Sequence[PrimExpr], name: str) -> te.Tensor:
    """Return the vector of some sizes."""

    def element(place: Any) -> Any:
        chosen: Any = sizes[-1] if sizes else const(0, "int64")
        for number in range(len(sizes) - 2, -1, -1):
            chosen = Select(place == number, sizes[number], chosen)
        return chosen

    made: te.Tensor = te.compute((len(sizes),), element, name=name)
    return made
