"""VMShapeLower, ComputePrimValue: sizes that are computed when the program runs.

    def main(x: R.Tensor(("n",)))        shape_heap = R.call_builtin_with_ctx(
        …                                    "vm.builtin.alloc_shape_heap", (R.prim_value(2),), …)
        y = f(x, R.shape([n * 2]))   →   R.call_packed("vm.builtin.match_shape", x, shape_heap, …)
                                         cls.shape_func(shape_heap)         # H[1] = H[0] * 2
                                         s = R.call_packed("vm.builtin.make_shape", shape_heap, …)
                                         y = f(x, s)

`relax.build` needs neither: it computes sizes in native code.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, IRModule, PrimExpr, const, structural_hash
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes, variables
from tilesmith.ir.types import PrimType
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    DataTypeImm,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import prove_equal, sizes_of, symbolic_vars
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.transform.normal_form import to_non_dataflow
from tilesmith.runtime.vm_builtins import (
    ASSERT_EQUAL_TO_IMM,
    ASSERT_EQUAL_TO_LOAD,
    LOAD_SHAPE,
    NO_OP,
    STORE_TO_HEAP,
    USE_IMM,
)
from tilesmith.tir import BufferLoad, BufferStore, Evaluate, PrimFunc, decl_buffer
from tilesmith.tir import ret as tir_ret
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import stmt_seq

_NOTHING = TupleStructInfo(())
_HEAP = TensorStructInfo(None, "int64", None, 1)


def _number(value: int) -> PrimValue:
    return PrimValue(const(value, "int64"))


class _Slots:
    """The places of sizes in the heap of one function."""

    def __init__(self, func: Any) -> None:
        self.exprs: list[PrimExpr] = []
        self._places: dict[int, list[int]] = {}
        for param in func.params:
            self._info(known_struct_info(param))
        for binding in bindings_of(func):
            if isinstance(binding, MatchCast):
                self._info(binding.struct_info)
            self._written(binding.value)
        self._written(func.body)

    def _info(self, info: StructInfo) -> None:
        if isinstance(info, TupleStructInfo):
            for one in info.fields:
                self._info(one)
        elif isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
            self._add(info.shape.values)
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            self._add(info.values)
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            self._add([info.value])

    def _written(self, expr: Any) -> None:
        for shape in nodes(expr, ShapeExpr):
            self._values(shape)
        for value in nodes(expr, PrimValue):
            self._values(value)

    def _values(self, node: Any) -> None:
        self._add(node.values if isinstance(node, ShapeExpr) else [node.value])

    def _add(self, sizes: Any) -> None:
        for size in sizes:
            if not isinstance(size, IntImm) and size.dtype.is_integer:
                self.place(size, add=True)

    def place(self, size: PrimExpr, add: bool = False) -> int:
        """Return the place of a size."""
        alike = self._places.setdefault(structural_hash(size), [])
        for one in alike:
            if self.exprs[one] is size or prove_equal(self.exprs[one], size):
                return one
        if not add:
            raise KeyError(size)
        self.exprs.append(size)
        alike.append(len(self.exprs) - 1)
        return len(self.exprs) - 1


class _ShapeLowering(PyExprMutator):
    def __init__(self, mod: IRModule, func: Function, emit_err_ctx: bool) -> None:
        super().__init__(mod)
        self.slots = _Slots(func)
        self.heap = Var("shape_heap", _HEAP)
        self.known: set[int] = set()
        self.emit_err_ctx = emit_err_ctx

    def run(self, func: Function) -> Function:
        """Return the function with its sizes in a heap."""
        self.builder_.begin_scope(func.params)
        self.builder_.begin_binding_block()
        count = len(self.slots.exprs)
        make = operators.call_builtin_with_ctx(
            "vm.builtin.alloc_shape_heap", [_number(count)], sinfo_args=_HEAP
        )
        if not count:
            make = operators.null_value()
            self.heap = Var("shape_heap", known_struct_info(make))
        self.builder_.emit_normalized(VarBinding(self.heap, make))
        pending: list[tuple[Any, StructInfo, str]] = []
        for param in func.params:
            info = known_struct_info(param)
            self.check(param, info, f"argument '{param.name_hint}'", pending)
        self.settle(pending)
        first = self.builder_.end_block()
        body = self.visit_expr(func.body)
        self.builder_.end_scope()
        bindings = [*first.bindings, *[one for block in body.blocks for one in block.bindings]]
        body = SeqExpr([BindingBlock(tuple(bindings))], body.body, body.span)
        attrs = {**func.attrs, "relax.force_pure": True} if func.is_pure else func.attrs
        return func.with_fields(body=body, attrs=attrs)

    # Checks

    def check(self, value: Any, info: StructInfo, context: str, pending: list[Any]) -> None:
        """Emit the checks of a value, and what stores sizes that it defines; what has to be
        compared once more is known is added to ``pending``.
        """
        text = StringImm(context if self.emit_err_ctx else "")
        if isinstance(info, TensorStructInfo):
            dtype = [] if info.dtype.is_void else [DataTypeImm(info.dtype)]
            self.packed("check_tensor_info", value, _number(info.ndim), *dtype, text)
            if isinstance(info.shape, ShapeExpr):
                self.match("match_shape", value, info.shape.values, info, context, pending)
        elif isinstance(info, ShapeStructInfo):
            self.packed("check_shape_info", value, _number(info.ndim), text)
            if info.values is not None:
                self.match("match_shape", value, info.values, info, context, pending)
        elif isinstance(info, PrimStructInfo):
            self.packed("check_prim_value_info", value, DataTypeImm(info.dtype), text)
            if info.value is not None and info.dtype.is_integer:
                self.match("match_prim_value", value, [info.value], info, context, pending)
        elif isinstance(info, TupleStructInfo):
            self.packed("check_tuple_info", value, _number(len(info.fields)), text)
            for place, one in enumerate(info.fields):
                if not isinstance(value, Var):
                    break
                item = self.builder_.emit(TupleGetItem(value, place))
                self.check(item, one, f"field {place} of {context}", pending)
        elif isinstance(info, FuncStructInfo):
            self.packed("check_func_info", value, text)

    def match(
        self, name: str, value: Any, sizes: Any, info: StructInfo, context: str, pending: list[Any]
    ) -> None:
        """Emit the comparison of sizes with what is known."""
        codes: list[PrimValue] = []
        is_open = False
        for size in sizes:
            if isinstance(size, IntImm):
                codes += [_number(ASSERT_EQUAL_TO_IMM), _number(size.value)]
                continue
            place = self.slots.place(size)
            if place in self.known:
                code = ASSERT_EQUAL_TO_LOAD
            elif isinstance(size, SymbolicVar):
                code = STORE_TO_HEAP
                self.known.add(place)
            else:
                code, is_open = NO_OP, True
            codes += [_number(code), _number(place if code != NO_OP else 0)]
        count = [_number(len(sizes))] if name == "match_shape" else []
        text = StringImm(context if self.emit_err_ctx else "")
        self.packed(name, value, self.heap, *count, *codes, text)
        if is_open:
            pending.append((value, info, context))

    def settle(self, pending: list[tuple[Any, StructInfo, str]]) -> None:
        """Compute what can be computed now, and compare what waited for it."""
        self.compute()
        for value, info, context in pending:
            sizes = (
                sizes_of(info)
                if isinstance(info, TensorStructInfo)
                else info.values
                if isinstance(info, ShapeStructInfo)
                else [info.value]  # type: ignore[attr-defined]
            )
            name = "match_prim_value" if isinstance(info, PrimStructInfo) else "match_shape"
            self.match(name, value, sizes, info, context, [])

    def compute(self) -> None:
        """Emit a call of a kernel that computes all sizes of known variables."""
        have = {
            one: place
            for place in self.known
            if isinstance(one := self.slots.exprs[place], SymbolicVar)
        }
        ready = [
            place
            for place, expr in enumerate(self.slots.exprs)
            if place not in self.known and all(var in have for var in variables(expr))
        ]
        if not ready:
            return
        heap = decl_buffer([const(len(self.slots.exprs), "int64")], "int64", "H")
        loads = {
            var: BufferLoad(heap, [const(place, "int64")]).astype(var.dtype)
            for var, place in have.items()
        }
        stores = [
            BufferStore(
                heap,
                substitute(self.slots.exprs[place], loads).astype("int64"),
                [const(place, "int64")],
            )
            for place in ready
        ]
        func = PrimFunc([heap], stmt_seq(*stores), attrs={"tir.is_host_func": True})
        self.builder_.emit(Call(self.builder_.add_func(func, "shape_func"), [self.heap]), "_")
        self.known.update(ready)

    def packed(self, name: str, *arguments: Any) -> None:
        """Emit a call of a function of the runtime that returns nothing."""
        call = operators.call_packed(f"vm.builtin.{name}", *arguments, sinfo_args=_NOTHING)
        self.builder_.emit(call, "_")

    # Expressions

    def visit_shape_expr_(self, op: ShapeExpr) -> Any:
        """Make a shape of what the heap holds."""
        if all(isinstance(size, IntImm) for size in op.values):
            return op
        codes: list[PrimValue] = []
        for size in op.values:
            if isinstance(size, IntImm):
                codes += [_number(USE_IMM), _number(size.value)]
            else:
                codes += [_number(LOAD_SHAPE), _number(self.slots.place(size))]
        return self.builder_.emit(
            operators.call_packed(
                "vm.builtin.make_shape",
                self.heap,
                _number(len(op.values)),
                *codes,
                sinfo_args=ShapeStructInfo(None, len(op.values)),
            )
        )

    def visit_prim_value_(self, op: PrimValue) -> Any:
        """Make a number of what the heap holds."""
        if isinstance(op.value, IntImm) or not op.value.dtype.is_integer:
            return op
        if not symbolic_vars(op.value):
            return op
        place = self.slots.place(op.value)
        codes = [_number(LOAD_SHAPE), _number(place)]
        info = PrimStructInfo(op.value.dtype)
        call = operators.call_packed(
            "vm.builtin.make_prim_value", self.heap, *codes, sinfo_args=info
        )
        return self.builder_.emit(call)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Check the value; the match_cast stays, as what tells the sizes of the variable."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        pending: list[tuple[Any, StructInfo, str]] = []
        self.check(value, binding.struct_info, f"match_cast of '{binding.var.name_hint}'", pending)
        self.settle(pending)
        self.builder_.emit_normalized(
            MatchCast(binding.var, value, binding.struct_info, binding.span)
        )

    def visit_if_(self, op: If) -> Any:
        """What a branch stores is known only there."""
        before = set(self.known)
        cond = self.visit_expr(op.cond)
        true = self.visit_with_new_scope(op.true_branch)
        self.known = set(before)
        false = self.visit_with_new_scope(op.false_branch)
        self.known = before
        return If(cond, true, false, op.span)


@compiler_pass("VMShapeLower")
def vm_shape_lower(mod: IRModule, *, emit_err_ctx: bool = True) -> IRModule:
    """Turns sizes into numbers on a heap: calls of ``vm.builtin.match_shape``, ``make_shape`` and
    of kernels that compute them, with checks of the arguments.

    ``emit_err_ctx``: the checks know what to call the value in their errors. Local functions have
    to be lifted before (LambdaLift).
    """
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        if "Codegen" in function.attrs:
            continue
        lowering = _ShapeLowering(mod, function, emit_err_ctx)
        changed = lowering.run(to_non_dataflow(function, mod))
        lowering.builder_.update_func(name, changed)
        mod = lowering.builder_.get()
    return mod


class _PrimValues(PyExprMutator):
    """Replaces numbers that are computed from sizes by calls of kernels."""

    def visit_prim_value_(self, op: PrimValue) -> Any:
        """Call a kernel that computes a number."""
        sizes = variables(op.value)
        if isinstance(op.value, (IntImm, SymbolicVar)) or not sizes:
            return op
        params = [SymbolicVar(size.name, size.dtype) for size in sizes]
        value = substitute(op.value, dict(zip(sizes, params)))
        func = PrimFunc(
            params,
            Evaluate(tir_ret(value)),
            PrimType(value.dtype),
            attrs={"tir.is_host_func": True},
        )
        kernel = self.builder_.add_func(func, "compute_symbolic_expr")
        return self.builder_.emit(Call(kernel, [PrimValue(size) for size in sizes]))


@compiler_pass("ComputePrimValue")
def compute_prim_value(mod: IRModule) -> IRModule:
    """Computes numbers made of symbolic sizes (``R.prim_value(n * n)``) by kernels
    ``compute_symbolic_expr``, which are called with the sizes.
    """
    mutator = _PrimValues(mod)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(name, updated)
    return mutator.builder_.get()


__all__ = ["compute_prim_value", "vm_shape_lower"]
