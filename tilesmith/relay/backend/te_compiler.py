"""Compiles groups of operators by their strategies, one function each, and keeps what it made.

    compiler = te_compiler.get()
    compiler.lower(function, "llvm").prim_func      # loops, by the schedule of what was chosen
    compiler.jit(function, "llvm")                  # a function of arrays, compiled
    print(compiler.dump())                          # what is kept, and how often it was asked for

`relay.build` compiles whole models; this is for one function of operators (as FuseOps makes them).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tilesmith import te
from tilesmith.ir import GlobalVar, IntImm, IRModule, Op, structural_equal, structural_hash
from tilesmith.ir.types import TupleType
from tilesmith.lowering import build
from tilesmith.relay.backend.shape_functions import shape_function
from tilesmith.relay.backend.utils import mangle_module_name
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.given_kernels import kernel_of
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.op_strategy import OpImplementation
from tilesmith.relay.op.patterns import pattern_of
from tilesmith.relay.op.strategy.selection import get_valid_implementations, select_implementation
from tilesmith.relay.walks import post_order
from tilesmith.schedule_rules import default_schedule
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import is_unscheduled
from tilesmith.tir.unknown import Any as AnySize

__all__ = [
    "CCacheKey", "CCacheValue", "CachedFunc", "CompileEngine", "LoweredOutput", "TECompiler",
    "autotvm_logger", "get", "get_shape", "get_valid_implementations", "lower_call",
    "lower_to_primfunc", "select_implementation",
]  # fmt: skip

autotvm_logger = logging.getLogger("autotvm")


@dataclass(frozen=True)
class LoweredOutput:
    """The tensors of a call, and the implementation that computes them."""

    outputs: list[te.Tensor]
    implement: OpImplementation


class CCacheKey:
    """A function and a target: equal where the function has the same structure."""

    def __init__(self, source_func: Function, target: Any) -> None:
        self.source_func = source_func
        self.target = Target(target)
        self._hash = hash((structural_hash(source_func), str(self.target)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CCacheKey)
            and self._hash == other._hash
            and str(self.target) == str(other.target)
            and structural_equal(self.source_func, other.source_func)
        )


@dataclass
class CachedFunc:
    """A lowered function: the tensors that go in and out, the implementation that it is scheduled
    by (the anchor), and the function itself in a module.
    """

    target: Target
    prim_fn_var: GlobalVar
    inputs: list[te.Tensor]
    outputs: list[te.Tensor]
    implementation: OpImplementation | None
    funcs: IRModule

    @property
    def func_name(self) -> str:
        """The name of the function."""
        return self.prim_fn_var.name_hint

    @property
    def prim_func(self) -> PrimFunc:
        """The function."""
        return cast(PrimFunc, self.funcs[self.prim_fn_var])


@dataclass
class CCacheValue:
    """What is kept of a function, and how often it was asked for."""

    cached_func: CachedFunc
    use_count: int = 0
    packed_func: Any = field(default=None, repr=False)


def get_shape(shape: Sequence[Any]) -> list[Any]:
    """Return sizes as tensor expressions take them: constants as int32, a variable for each that is
    not known.
    """
    return [
        IntImm("int32", int(one)) if isinstance(one, (int, IntImm))
        else te.size_var("any_dim", "int32") if isinstance(one, AnySize) else one
        for one in shape
    ]  # fmt: skip


def lower_call(
    call: Call, inputs: Sequence[te.Tensor], target: Any, otype: Any = None
) -> LoweredOutput:
    """Return the tensors of a call of an operator for these tensors, by the best implementation;
    ``otype`` is the type of the result, by default the one that InferType found.
    """
    if not isinstance(call.op, Op):
        raise TypeMismatchError(
            "only calls of operators have implementations", notes=("inline functions first",)
        )
    out_type = _open_type(call.checked_type if otype is None else otype)
    best, outputs = select_implementation(call.op, call.attrs, inputs, out_type, target)
    return LoweredOutput(outputs, best)


def _open_type(type_: Any) -> Any:
    """Return a type whose unknown sizes are variables."""
    if isinstance(type_, TupleType):
        return TupleType([_open_type(one) for one in type_.fields])
    if any(isinstance(size, AnySize) for size in type_.shape):
        return type(type_)(get_shape(type_.shape), type_.dtype)
    return type_


class _Lowering:
    """Makes tensors of the body of a function."""

    def __init__(self, function: Function, target: Target) -> None:
        self.target = target
        self.values: dict[int, Any] = {}
        self.inputs: list[te.Tensor] = []
        self.anchor: tuple[int, OpImplementation, Any] | None = None
        self.names: list[str] = []
        for param in function.params:
            self.values[id(param)] = self.parameter(param.name_hint, param.checked_type)
        for node in post_order(function.body):
            if id(node) not in self.values and not isinstance(node, Op):
                self.values[id(node)] = self.value(node)
        made = self.values[id(function.body)]
        self.outputs = list(made) if isinstance(made, list) else [made]

    def parameter(self, name: str, type_: Any) -> Any:
        """Return the tensor of a parameter, or the list of tensors of a tuple."""
        if isinstance(type_, TupleType):
            return [self.parameter(f"{name}_{n}", one) for n, one in enumerate(type_.fields)]
        self.inputs.append(te.placeholder(get_shape(type_.shape), type_.dtype, name=name))
        return self.inputs[-1]

    def value(self, node: Any) -> Any:
        """Return the tensor or tensors of an expression whose parts are done."""
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self.call(node)
        if isinstance(node, Tuple):
            return [self.values[id(one)] for one in node.fields]
        if isinstance(node, TupleGetItem):
            return self.values[id(node.tuple_value)][node.index]
        if isinstance(node, Constant) and not node.data.shape:
            number = te.const(node.data.numpy().item(), str(node.data.dtype))
            return te.compute((), lambda: number, name="constant")
        what = f"'{node.name_hint}'" if isinstance(node, Var) else f"a {type(node).__name__}"
        raise UnsupportedError(
            f"{what} cannot be part of one kernel",
            notes=("kernels are calls of operators, of parameters and scalar constants",),
        )

    def call(self, call: Call) -> Any:
        """Return the tensors of a call, and note what it is computed by."""
        inputs: list[Any] = []
        for arg in call.args:
            value = self.values[id(arg)]
            inputs += value if isinstance(value, list) else [value]
        lowered = lower_call(call, inputs, self.target)
        self.names.append(call.op.name.replace(".", "_"))
        rank = int(pattern_of(call.op))
        if self.anchor is None or rank >= self.anchor[0]:
            self.anchor = (rank, lowered.implement, call.attrs)
        is_tuple = isinstance(call.checked_type, TupleType)
        return list(lowered.outputs) if is_tuple else lowered.outputs[0]


def _typed(function: Any) -> Function:
    if not isinstance(function, Function):
        raise TypeMismatchError(
            f"a relay.Function is compiled here, got {type(function).__name__}",
            notes=("relay.Function([x], body)",),
        )
    module = infer_module(IRModule({"main": function}))
    return cast(Function, module["main"])


def lower_to_primfunc(relay_func: Function, target: Any) -> PrimFunc:
    """Return the PrimFunc of a function of operators, not scheduled: the best computes together."""
    lowering = _Lowering(_typed(relay_func), Target(target))
    made: PrimFunc = te.create_prim_func([*lowering.inputs, *lowering.outputs])
    return made


class TECompiler:
    """Lowers and compiles functions of operators; asked again, it gives what it made."""

    def __init__(self) -> None:
        self._kept: dict[CCacheKey, CCacheValue] = {}
        self._shape_functions: dict[CCacheKey, CCacheValue] = {}
        self._names: dict[str, int] = {}

    def lower(
        self, source_func: Function, target: Any = None, mod_name: str = "default"
    ) -> CachedFunc:
        """Lower a function of operators: by the schedule of the implementation that was chosen for
        its most complex operator, or without loops that are changed where that is the static
        search, which schedules when the function is compiled.
        """
        return self._value(source_func, target, mod_name).cached_func

    def _value(self, source_func: Function, target: Any, mod_name: str) -> CCacheValue:
        key = CCacheKey(source_func, _target(target))
        value = self._kept.get(key)
        if value is None:
            value = self._kept[key] = CCacheValue(self._lowered(key, mod_name))
        value.use_count += 1
        return value

    def _lowered(self, key: CCacheKey, mod_name: str) -> CachedFunc:
        lowering = _Lowering(_typed(key.source_func), key.target)
        if lowering.anchor is None:
            raise UnsupportedError("the function has no call of an operator")
        _, anchor, attrs = lowering.anchor
        chosen = anchor if not anchor.is_search else OpImplementation(anchor.fcompute, None)
        function = kernel_of(chosen, attrs, lowering.inputs, lowering.outputs, key.target)
        name = self._fresh(f"{mangle_module_name(mod_name)}_fused_{'_'.join(lowering.names)}")
        variable = GlobalVar(name)
        module = IRModule({variable: function.with_attr("global_symbol", name)})
        return CachedFunc(key.target, variable, lowering.inputs, lowering.outputs, anchor, module)

    def _fresh(self, name: str) -> str:
        count = self._names[name] = self._names.get(name, -1) + 1
        return name if count == 0 else f"{name}_{count}"

    def lower_shape_func(
        self, source_func: Function, target: Any = None, mod_name: str = "default"
    ) -> CachedFunc:
        """Lower the function that computes the sizes of a function's results: it gets a vector of
        sizes for each parameter (the value where an operator's shape function needs it), and gives
        one for each result.
        """
        key = CCacheKey(source_func, _target(target))
        value = self._shape_functions.get(key)
        if value is None:
            inputs, outputs = shape_function(_typed(source_func))
            name = self._fresh(f"{mangle_module_name(mod_name)}_shape_func")
            variable = GlobalVar(name)
            function = te.create_prim_func([*inputs, *outputs]).with_attr("global_symbol", name)
            made = CachedFunc(
                key.target, variable, inputs, outputs, None, IRModule({variable: function})
            )
            value = self._shape_functions[key] = CCacheValue(made)
        value.use_count += 1
        return value.cached_func

    def jit(self, source_func: Function, target: Any = None) -> Any:
        """Compile a function of operators; the result takes arrays, those for results last."""
        value = self._value(source_func, target, "default")
        if value.packed_func is None:
            made = value.cached_func
            function = made.prim_func
            if is_unscheduled(function):
                function = default_schedule(function, made.target)
            module = build(function, target=made.target)
            value.packed_func = module[made.func_name]
        return value.packed_func

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._shape_functions.clear()
        self._names.clear()

    def items(self) -> list[tuple[CCacheKey, CCacheValue]]:
        """Return what is kept."""
        return list(self._kept.items())

    def shape_func_items(self) -> list[tuple[CCacheKey, CCacheValue]]:
        """Return the shape functions that are kept."""
        return list(self._shape_functions.items())

    def dump(self) -> str:
        """Return a text about all that is kept: the functions, their implementations, how often
        they were asked for.
        """
        lines = [f"{len(self._kept)} functions, {len(self._shape_functions)} shape functions"]
        for kind, kept in (("function", self._kept), ("shape function", self._shape_functions)):
            for key, value in kept.items():
                made = value.cached_func
                how = "" if made.implementation is None else f", {made.implementation.name}"
                times = "once" if value.use_count == 1 else f"{value.use_count} times"
                lines.append(f"{kind} {made.func_name} for {key.target}{how}: asked for {times}")
                lines += [f"    {line}" for line in str(key.source_func).splitlines()]
        return "\n".join(lines)


CompileEngine = TECompiler  # its older name


def _target(target: Any) -> Target:
    if target is None:
        return Target.current(allow_none=True) or Target("llvm")
    return Target(target)


_compiler = TECompiler()


def get() -> TECompiler:
    """Return the compiler that all of the process share."""
    return _compiler
