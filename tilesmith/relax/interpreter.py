"""Executes graph modules with numpy: the reference that passes are tested against.

    run(mod, "main", x, w)        # arrays in, arrays (or nested tuples of them) out

Operators run by their numpy evaluation, PrimFuncs by the interpreter of tensor programs (or
compiled, with ``compiled=True``), registered functions as they are.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import FloatImm, GlobalVar, IntImm, IRModule, Op, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.op.evaluate import evaluate_call
from tilesmith.relax.relations import describe, simplify_size, substitute_sizes
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.container import ADT
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["Frame", "Interpreter", "run"]


def run(mod: IRModule, name: str, *args: Any, compiled: bool = False) -> Any:
    """Run a function of a module on arrays, scalars, shapes and tuples of them; return its result.

    ``compiled``: PrimFuncs are compiled, which is faster beyond a few thousand iterations.
    """
    with deep_recursion():
        return Interpreter(mod, compiled).call(mod[name], list(args))


class _Closure:
    """A local function with the values that it captures."""

    def __init__(self, function: Function, frame: Frame, first: tuple[Any, ...] = ()) -> None:
        self.function = function
        self.frame = frame
        self.first = first


class Frame:
    """The values of the variables and sizes of one call."""

    def __init__(self, outer: Frame | None = None) -> None:
        self.values: dict[Var, Any] = dict(outer.values) if outer is not None else {}
        self.sizes: dict[SymbolicVar, int] = dict(outer.sizes) if outer is not None else {}
        self.unchecked: list[tuple[PrimExpr, int, str]] = []

    def size(self, expr: PrimExpr) -> Any:
        """Return the value of a size (or another scalar)."""
        if not isinstance(expr, (IntImm, FloatImm)):
            constants = {var: IntImm(var.dtype, value) for var, value in self.sizes.items()}
            expr = simplify_size(substitute_sizes(expr, constants))
        if isinstance(expr, (IntImm, FloatImm)):
            return expr.value
        raise ShapeError(f"the size `{expr}` is not known when it is needed")

    def shape(self, info: TensorStructInfo) -> tuple[int, ...]:
        """Return the shape that a struct info describes."""
        if isinstance(info.shape, ShapeExpr):
            return tuple([self.size(size) for size in info.shape])
        if isinstance(info.shape, Var):
            return tuple(self.values[info.shape])
        raise ShapeError(f"the shape of a result is not known: {describe(info)}")

    def match(self, info: StructInfo, value: Any, what: str) -> None:
        """Check a value against its struct info; bind sizes that stand alone. ``check_sizes`` then
        compares the other sizes, which may consist of sizes that other values bind.
        """
        if isinstance(info, TensorStructInfo):
            self._match_tensor(info, value, what)
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            self._match_sizes(info.values, tuple(value), what)
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            self._match_sizes((info.value,), (value,), what)
        elif isinstance(info, TupleStructInfo):
            if len(info.fields) != len(value):
                raise TypeMismatchError(f"{what} has {len(value)} fields, not {len(info.fields)}")
            for number, (field, item) in enumerate(zip(info.fields, value)):
                self.match(field, item, f"field {number} of {what}")

    def _match_tensor(self, info: TensorStructInfo, value: Any, what: str) -> None:
        if info.ndim not in (-1, value.ndim):
            raise ShapeError(f"{what} has the shape {value.shape}, expected {describe(info)}")
        if not info.dtype.is_void and value.dtype != info.dtype.numpy():
            raise TypeMismatchError(f"{what} is {value.dtype}, expected {describe(info)}")
        if isinstance(info.shape, ShapeExpr):
            self._match_sizes(info.shape.values, value.shape, what)

    def _match_sizes(self, sizes: Any, values: Any, what: str) -> None:
        for size, value in zip(sizes, values):
            if isinstance(size, SymbolicVar) and size not in self.sizes:
                self.sizes[size] = int(value)
            else:
                self.unchecked.append((size, value, what))

    def check_sizes(self) -> None:
        """Compare the sizes of matched values that do not stand alone."""
        unchecked, self.unchecked = self.unchecked, []
        for size, value, what in unchecked:
            if self.size(size) != value:
                raise ShapeError(f"{what}: the size {value} should be `{size}` = {self.size(size)}")


class Interpreter:
    """Runs functions of one module."""

    def __init__(self, mod: IRModule, compiled: bool = False) -> None:
        self.mod = mod
        self.compiled = compiled

    def call(self, function: Any, args: list[Any], outer: Frame | None = None) -> Any:
        """Call a function of the graph."""
        return self.sequence(function.body, self.enter(function, args, outer))

    def enter(self, function: Any, args: list[Any], outer: Frame | None = None) -> Frame:
        """Return the values and sizes with which a call of a function begins."""
        if len(args) != len(function.params):
            raise TypeMismatchError(
                f"the function has {len(function.params)} parameters, got {len(args)} arguments"
            )
        frame = Frame(outer)
        for param, arg in zip(function.params, args):
            value = _host(arg)
            frame.match(known_struct_info(param), value, f"argument '{param.name_hint}'")
            frame.values[param] = value
        frame.check_sizes()
        return frame

    def sequence(self, sequence: SeqExpr, frame: Frame) -> Any:
        """Execute the bindings and return the value."""
        for block in sequence.blocks:
            for binding in block.bindings:
                self.bind(binding, self.value(binding.value, frame), frame)
        return self.value(sequence.body, frame)

    def bind(self, binding: Any, value: Any, frame: Frame) -> None:
        """Give the variable of a binding its value."""
        if isinstance(binding, MatchCast):
            frame.match(binding.struct_info, value, f"'{binding.var.name_hint}'")
            frame.check_sizes()
        frame.values[binding.var] = value

    def value(self, expr: Any, frame: Frame) -> Any:
        """Return the value of an expression."""
        if isinstance(expr, Var):
            return frame.values[expr]
        if isinstance(expr, Constant):
            return numpy.asarray(expr.data)
        if isinstance(expr, ShapeExpr):
            return tuple([frame.size(size) for size in expr.values])
        if isinstance(expr, PrimValue):
            return frame.size(expr.value)
        if isinstance(expr, (StringImm, DataTypeImm)):
            return expr.value
        if isinstance(expr, Tuple):
            return tuple([self.value(field, frame) for field in expr.fields])
        if isinstance(expr, TupleGetItem):
            return self.value(expr.tuple_value, frame)[expr.index]
        if isinstance(expr, If):
            branch = expr.true_branch if bool(self.value(expr.cond, frame)) else expr.false_branch
            return self.sequence(branch, frame)
        if isinstance(expr, Function):
            return _Closure(expr, frame)
        if isinstance(expr, SeqExpr):
            return self.sequence(expr, frame)
        if isinstance(expr, Call):
            return self.call_value(expr, frame)
        if isinstance(expr, (GlobalVar, ExternFunc)):
            return expr
        raise UnsupportedError(f"the interpreter has no rule for {type(expr).__name__}")

    def call_value(self, call: Call, frame: Frame) -> Any:
        """Return the value of a call."""
        op = call.op
        if isinstance(op, Op):
            special = _SPECIAL.get(op.spec.execution) if op.spec is not None else None
            if special is not None:
                return special(self, call, frame)
            if op.spec is None or op.spec.evaluate is None:
                raise UnsupportedError(f"the interpreter has no rule for calls of {op.name}")
            return evaluate_call(call, [self.value(arg, frame) for arg in call.args])
        arguments = [self.value(arg, frame) for arg in call.args]
        return self.apply(op if isinstance(op, GlobalVar) else self.value(op, frame), arguments)

    def apply(self, callee: Any, arguments: list[Any]) -> Any:
        """Call a function of the module, a closure, or a registered function."""
        if isinstance(callee, GlobalVar):
            function = self.mod[callee]
            if not isinstance(function, Function):  # a PrimFunc, results among the arguments
                found = self._run_prim_func(function, arguments)
                return () if found is None else found
            return self.call(function, arguments)
        if isinstance(callee, _Closure):
            outer = Frame(callee.frame)
            return self.call(callee.function, [*callee.first, *arguments], outer)
        if isinstance(callee, ExternFunc) and callee.global_symbol.startswith("vm.builtin."):
            return self._builtin(callee.global_symbol, arguments)
        if isinstance(callee, ExternFunc):
            function = get_global_func(callee.global_symbol)
            return _host(function(*[self._passed(value) for value in arguments]))
        raise UnsupportedError(f"cannot call {callee!r}")

    def _builtin(self, name: str, arguments: list[Any]) -> Any:
        """Call a function of the runtime on values as they are here: memory is shared."""
        from tilesmith.runtime.vm_builtins import BUILTINS

        if name == "vm.builtin.call_tir_dyn":
            sizes = arguments[-1] if isinstance(arguments[-1], tuple) else ()
            tensors = arguments[1 : len(arguments) - bool(sizes)]
            return self.apply(arguments[0], [*tensors, *sizes])
        if name == "vm.builtin.make_closure":
            return self._closure(arguments[0], arguments[1:])
        if name == "vm.builtin.invoke_closure":
            return self.apply(arguments[0], arguments[1:])
        function = BUILTINS.get(name) or get_global_func(name)
        return function(*arguments)

    def _passed(self, value: Any) -> Any:
        """Convert a value to what a registered function takes: a closure becomes a function."""
        if isinstance(value, (_Closure, GlobalVar)):
            return lambda *given: _tensor(self.apply(value, [_host(one) for one in given]))
        return _tensor(value)

    # Destination-passing calls

    def call_tir(self, call: Call, frame: Frame) -> Any:
        """Run a PrimFunc on arguments and new results."""
        inputs = self._inputs(call, frame)
        sizes = list(self.value(call.args[2], frame)) if len(call.args) > 2 else []
        outputs, is_tuple = self._outputs(call, frame)
        function = self.mod[call.args[0]]
        if call.attrs is not None and "inplace_indices" in call.attrs:
            for number, place in enumerate(call.attrs.inplace_indices):
                if place >= 0:
                    outputs[number] = numpy.array(inputs[place])
                    inputs[place] = outputs[number]
            outputs_given = [
                out for out, place in zip(outputs, call.attrs.inplace_indices) if place < 0
            ]
        else:
            outputs_given = outputs
        self._run_prim_func(function, [*inputs, *outputs_given, *sizes])
        return tuple(outputs) if is_tuple else outputs[0]

    def _inputs(self, call: Call, frame: Frame) -> list[Any]:
        given = self.value(call.args[1], frame)
        return list(given) if isinstance(given, tuple) else [given]

    def _outputs(self, call: Call, frame: Frame) -> tuple[list[Any], bool]:
        info = call.sinfo_args[0]
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        made = [numpy.zeros(frame.shape(field), field.dtype.numpy()) for field in fields]
        return made, isinstance(info, TupleStructInfo)

    def _run_prim_func(self, function: Any, arguments: list[Any]) -> Any:
        if not self.compiled:
            from tilesmith.tir import interpreter

            return interpreter.run(function, *arguments)
        from tilesmith import lowering

        built = lowering.build_to_run(function.with_attr("global_symbol", "kernel"))
        tensors = [
            array(numpy.asarray(a, order="C")) if hasattr(a, "shape") else a for a in arguments
        ]
        result = built["kernel"](*tensors)
        for argument, tensor in zip(arguments, tensors):
            if hasattr(argument, "shape") and argument.flags.writeable:
                argument[...] = tensor.numpy()
        return result

    def call_kernel(self, call: Call, frame: Frame) -> Any:
        """Run a PrimFunc whose results are among its arguments; the sizes of a shape come last."""
        arguments: list[Any] = []
        for value in self.value(call.args[1], frame):
            arguments += value if isinstance(value, tuple) else [value]
        self._run_prim_func(self.mod[call.args[0]], arguments)
        return ()

    def call_dps_packed(self, call: Call, frame: Frame) -> Any:
        """Call a registered function with new results after its arguments."""
        inputs = [_tensor(value) for value in self._inputs(call, frame)]
        outputs, is_tuple = self._outputs(call, frame)
        tensors = [array(out) for out in outputs]
        get_global_func(call.args[0].global_symbol)(*inputs, *tensors)
        found = [tensor.numpy() for tensor in tensors]
        return tuple(found) if is_tuple else found[0]

    def call_pure_packed(self, call: Call, frame: Frame) -> Any:
        """Call a registered function that returns its result."""
        arguments = [self.value(arg, frame) for arg in call.args[1:]]
        return self.apply(call.args[0], arguments)

    def call_builtin(self, call: Call, frame: Frame) -> Any:
        """Call a function of the runtime; the context is the interpreter's."""
        return self.apply(call.args[0], list(self.value(call.args[1], frame)))

    def make_closure(self, call: Call, frame: Frame) -> Any:
        """Fix the first arguments of a function."""
        return self._closure(call.args[0], self.value(call.args[1], frame))

    def _closure(self, function: Any, first: Any) -> _Closure:
        if isinstance(function, GlobalVar):
            function = self.mod[function]
        return _Closure(function, Frame(), tuple(first))

    def invoke_closure(self, call: Call, frame: Frame) -> Any:
        """Call a closure."""
        closure = self.value(call.args[0], frame)
        return self.apply(closure, list(self.value(call.args[1], frame)))

    def alloc_tensor(self, call: Call, frame: Frame) -> Any:
        """Allocate an array."""
        info = known_struct_info(call)
        assert isinstance(info, TensorStructInfo)
        return numpy.zeros(frame.shape(info), info.dtype.numpy())

    def alloc_storage(self, call: Call, frame: Frame) -> Any:
        """Allocate bytes, filled with a pattern that reveals reads before writes."""
        (nbytes,) = self.value(call.args[0], frame)
        return numpy.full(nbytes, 0xA5, "uint8")

    def tensor_in_storage(self, call: Call, frame: Frame) -> Any:
        """Return a view of a part of a storage."""
        storage, offset = self.value(call.args[0], frame), self.value(call.args[1], frame)
        info = known_struct_info(call)
        assert isinstance(info, TensorStructInfo)
        shape, dtype = frame.shape(info), info.dtype.numpy()
        count = int(numpy.prod(shape))
        return storage[offset : offset + count * dtype.itemsize].view(dtype).reshape(shape)


_SPECIAL = {
    Execution.CALL_TIR: Interpreter.call_tir,
    Execution.CALL_KERNEL: Interpreter.call_kernel,
    Execution.CALL_DPS_PACKED: Interpreter.call_dps_packed,
    Execution.CALL_PACKED: Interpreter.call_pure_packed,
    Execution.CALL_BUILTIN: Interpreter.call_builtin,
    Execution.MAKE_CLOSURE: Interpreter.make_closure,
    Execution.INVOKE_CLOSURE: Interpreter.invoke_closure,
    Execution.ALLOC_TENSOR: Interpreter.alloc_tensor,
    Execution.ALLOC_STORAGE: Interpreter.alloc_storage,
    Execution.TENSOR_IN_STORAGE: Interpreter.tensor_in_storage,
}
"""How calls are carried out that have no numpy evaluation of their own."""


def _host(value: Any) -> Any:
    """Convert a runtime value to numpy."""
    if isinstance(value, NDArray):
        return value.numpy()
    if isinstance(value, ADT):
        return ADT(value.tag, [_host(item) for item in value])
    if isinstance(value, (tuple, list)):
        return tuple([_host(item) for item in value])
    return value


def _tensor(value: Any) -> Any:
    """Convert a numpy value to what the runtime's functions take."""
    if isinstance(value, numpy.ndarray):
        return array(value)
    if isinstance(value, ADT):
        return ADT(value.tag, [_tensor(item) for item in value])
    if isinstance(value, tuple):
        return tuple([_tensor(item) for item in value])
    return value
