"""Relations between struct infos: subsumption, least upper bound, inference of call results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any

from tilesmith.ir import IntImm, Op, PrimExpr, RelaxExpr, Rewriter
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.printing import Printer, PrinterConfig
from tilesmith.ir.queries import variables
from tilesmith.relax.sharding import DTensorStructInfo
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
    known_struct_info,
)
from tilesmith.relax.type_views import struct_info_of, type_of
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.support.lazy import resolve
from tilesmith.tir.functor import substitute

__all__ = [
    "BaseCheckResult", "derive_call_ret_struct_info", "describe", "erase_to_well_defined",
    "infer_call", "is_base_of", "prove_equal", "prove_equal_shapes", "struct_info_base_check",
    "struct_info_lca", "substitute_sizes", "symbolic_vars",
]  # fmt: skip


# Sizes


def _analyzer(*sizes: PrimExpr) -> Any:
    """Return an analyzer that knows that size variables and sizes are not negative."""
    from tilesmith.arith import Analyzer, ConstIntBound  # most graphs have constant sizes only

    analyzer = Analyzer()
    for size in sizes:
        for var in symbolic_vars(size) if isinstance(size, PrimExpr) else ():
            analyzer.update(var, ConstIntBound(0, ConstIntBound.POS_INF))
    return analyzer


def prove_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two sizes are provably equal for all values of their variables."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return bool(_analyzer(a, b).can_prove_equal(a, b))


def surely_different(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two sizes provably differ."""
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value


def prove_equal_shapes(a: Iterable[PrimExpr], b: Iterable[PrimExpr]) -> bool:
    """Return whether two shapes have the same rank and provably equal sizes."""
    left, right = list(a), list(b)
    if len(left) != len(right):
        return False
    return all(prove_equal(x, y) for x, y in zip(left, right))


def symbolic_vars(node: Any) -> list[SymbolicVar]:
    """Return the variables in the sizes of a struct info or an expression, in order of
    occurrence.
    """
    return variables(node)


def definable_symbolic_vars(info: StructInfo) -> list[SymbolicVar]:
    """Return the variables that stand alone as a size; a matching value binds them."""
    found: dict[SymbolicVar, None] = {}

    def collect(current: Any) -> None:
        if isinstance(current, TupleStructInfo):
            for field in current.fields:
                collect(field)
        elif isinstance(current, (TensorStructInfo, ShapeStructInfo, DTensorStructInfo)):
            if isinstance(current.shape, ShapeExpr):
                found.update(
                    {size: None for size in current.shape if isinstance(size, SymbolicVar)}
                )
        elif isinstance(current, PrimStructInfo) and isinstance(current.value, SymbolicVar):
            found[current.value] = None

    collect(info)
    return list(found)


def substitute_sizes(node: Any, values: Mapping[Any, Any]) -> Any:
    """Substitute size variables, and variables that hold shapes, in a struct info or expression."""
    if not values:
        return node
    replaced = substitute(node, values)
    return node if replaced is node else _Simplify().visit(replaced)


class _Simplify(Rewriter):
    """Simplifies the sizes of a shape."""

    def visit_ShapeExpr(self, node: Any) -> Any:
        sizes = tuple([simplify_size(size) for size in node.values])
        return ShapeExpr(sizes) if any(a is not b for a, b in zip(sizes, node.values)) else node


def simplify_size(size: PrimExpr) -> PrimExpr:
    """Return a size in its simplest form."""
    if isinstance(size, (IntImm, SymbolicVar)):
        return size
    return _analyzer(size).simplify(size)


# Wider and narrower


class BaseCheckResult(IntEnum):
    """How completely ``base`` describes the values that ``derived`` describes."""

    FAIL_L0 = 0  # no value matches both
    FAIL_L1 = 1  # ranks or dtypes do not imply it
    FAIL_L2 = 2  # sizes do not imply it
    PASS = 3


def _check_sizes(base: Any, derived: Any) -> BaseCheckResult:
    if base is None or base is derived:
        return BaseCheckResult.PASS
    if not isinstance(base, ShapeExpr) or not isinstance(derived, ShapeExpr):
        return BaseCheckResult.FAIL_L2
    if any(surely_different(a, b) for a, b in zip(base, derived)):
        return BaseCheckResult.FAIL_L0
    equal = prove_equal_shapes(base, derived)
    return BaseCheckResult.PASS if equal else BaseCheckResult.FAIL_L2


def _check_rank(base: int, derived: int) -> BaseCheckResult:
    if base in (-1, derived):
        return BaseCheckResult.PASS
    return BaseCheckResult.FAIL_L1 if derived == -1 else BaseCheckResult.FAIL_L0


def _check_tensor(base: TensorStructInfo, derived: TensorStructInfo) -> BaseCheckResult:
    result = BaseCheckResult.PASS
    if not base.dtype.is_void and base.dtype != derived.dtype:
        if not derived.dtype.is_void:
            return BaseCheckResult.FAIL_L0
        result = BaseCheckResult.FAIL_L1
    if base.vdevice is not None and derived.vdevice is not None:
        if base.vdevice is not derived.vdevice and str(base.vdevice) != str(derived.vdevice):
            return BaseCheckResult.FAIL_L0
    result = min(result, _check_rank(base.ndim, derived.ndim))
    if result == BaseCheckResult.FAIL_L0:
        return result
    return min(result, _check_sizes(base.shape, derived.shape))


def _check_function(base: FuncStructInfo, derived: FuncStructInfo) -> BaseCheckResult:
    if base.purity and not derived.purity:
        return BaseCheckResult.FAIL_L0
    if base.params is None:
        return struct_info_base_check(base.ret, derived.ret)
    if derived.params is None:
        return BaseCheckResult.FAIL_L2
    if len(base.params) != len(derived.params):
        return BaseCheckResult.FAIL_L0
    checks = [struct_info_base_check(d, b) for b, d in zip(base.params, derived.params)]
    return min([*checks, struct_info_base_check(base.ret, derived.ret)])


def struct_info_base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """Return how completely ``base`` describes the values that ``derived`` describes."""
    if base is derived or isinstance(base, ObjectStructInfo):
        return BaseCheckResult.PASS
    if isinstance(derived, ObjectStructInfo):
        return BaseCheckResult.FAIL_L1
    if type(base) is not type(derived):
        return BaseCheckResult.FAIL_L0
    if isinstance(base, TensorStructInfo):
        return _check_tensor(base, derived)
    if isinstance(base, DTensorStructInfo) and isinstance(derived, DTensorStructInfo):
        same = base.device_mesh == derived.device_mesh and base.placement == derived.placement
        found = struct_info_base_check(base.tensor_sinfo, derived.tensor_sinfo)
        return found if same else BaseCheckResult.FAIL_L0
    if isinstance(base, ShapeStructInfo):
        return min(_check_rank(base.ndim, derived.ndim), _check_sizes(base.shape, derived.shape))
    if isinstance(base, PrimStructInfo):
        if base.dtype != derived.dtype:
            return BaseCheckResult.FAIL_L0
        if base.value is None:
            return BaseCheckResult.PASS
        if derived.value is None:
            return BaseCheckResult.FAIL_L2
        if surely_different(base.value, derived.value):
            return BaseCheckResult.FAIL_L0
        equal = prove_equal(base.value, derived.value)
        return BaseCheckResult.PASS if equal else BaseCheckResult.FAIL_L2
    if isinstance(base, TupleStructInfo):
        if len(base.fields) != len(derived.fields):
            return BaseCheckResult.FAIL_L0
        pairs = zip(base.fields, derived.fields)
        return min([BaseCheckResult.PASS, *[struct_info_base_check(a, b) for a, b in pairs]])
    if not isinstance(base, FuncStructInfo):
        return BaseCheckResult.PASS if base == derived else BaseCheckResult.FAIL_L0
    return _check_function(base, derived)


def is_base_of(base: StructInfo, derived: StructInfo) -> bool:
    """Return whether ``base`` describes all values that ``derived`` describes."""
    return struct_info_base_check(base, derived) == BaseCheckResult.PASS


def struct_info_lca(lhs: StructInfo, rhs: StructInfo) -> StructInfo:
    """Return the narrowest struct info that describes the values of both."""
    if lhs is rhs or is_base_of(lhs, rhs):
        return lhs
    if is_base_of(rhs, lhs):
        return rhs
    if type(lhs) is not type(rhs):
        return ObjectStructInfo()
    if isinstance(lhs, TensorStructInfo):
        dtype = lhs.dtype if lhs.dtype == rhs.dtype else None
        ndim = lhs.ndim if lhs.ndim == rhs.ndim else -1
        equal = lhs.shape is not None and _check_sizes(lhs.shape, rhs.shape) == BaseCheckResult.PASS
        same_shape = lhs.shape if ndim != -1 and equal else None
        return TensorStructInfo(same_shape, dtype, None, ndim)
    if isinstance(lhs, ShapeStructInfo):
        return ShapeStructInfo(None, lhs.ndim if lhs.ndim == rhs.ndim else -1)
    if isinstance(lhs, PrimStructInfo):
        return PrimStructInfo(lhs.dtype) if lhs.dtype == rhs.dtype else ObjectStructInfo()
    if isinstance(lhs, TupleStructInfo) and len(lhs.fields) == len(rhs.fields):
        return TupleStructInfo(
            tuple([struct_info_lca(a, b) for a, b in zip(lhs.fields, rhs.fields)])
        )
    if isinstance(lhs, FuncStructInfo):
        ret = struct_info_lca(lhs.ret, rhs.ret)
        return FuncStructInfo(None, ret, lhs.purity and rhs.purity)
    return ObjectStructInfo()


# Leaving a scope


class _Erase(Rewriter):
    """Drops references to variables that are unknown outside a scope."""

    def __init__(self, known: Callable[[Any], Any]) -> None:
        self.known = known

    def _shape(self, shape: Any) -> Any:
        if shape is None:
            return None
        if isinstance(shape, Var):
            return self.known(shape)
        values: dict[Any, Any] = {}
        for var in symbolic_vars(shape):
            value = self.known(var)
            if value is None:
                return None
            if value is not var:
                values[var] = value
        return substitute_sizes(shape, values)

    def visit_TensorStructInfo(self, info: Any) -> Any:
        shape = self._shape(info.shape)
        if shape is info.shape:
            return info
        return TensorStructInfo(shape, info.dtype, info.vdevice, info.ndim)

    def visit_ShapeStructInfo(self, info: Any) -> Any:
        shape = self._shape(info.shape)
        return info if shape is info.shape else ShapeStructInfo(shape, info.ndim)

    def visit_PrimStructInfo(self, info: Any) -> Any:
        if info.value is None:
            return info
        held = self._shape(ShapeExpr([info.value])) if info.dtype == "int64" else None
        if held is not None and held[0] is info.value:
            return info
        return PrimStructInfo(info.dtype, None if held is None else held[0])

    def visit_FuncStructInfo(self, info: Any) -> Any:
        return info  # it has its own variables


def _lookup(mapping: Any) -> Callable[[Any], Any]:
    if mapping is None:
        return lambda var: None
    if callable(mapping):
        return mapping
    return lambda var: mapping.get(var)


def erase_to_well_defined(
    sinfo: StructInfo, shape_var_map: Any = None, var_map: Any = None
) -> StructInfo:
    """Return ``sinfo`` with only the variables that the maps know (replaced by what they map to).

    A shape that names any other variable becomes unknown; its rank stays.
    """
    sizes, shapes = _lookup(shape_var_map), _lookup(var_map)
    return _Erase(lambda var: shapes(var) if isinstance(var, Var) else sizes(var)).visit(sinfo)


def erase_to_params(info: StructInfo, params: Iterable[Any]) -> StructInfo:
    """Return ``info`` with only the symbolic sizes that the parameters of a function bind."""
    known: dict[Any, Any] = {}
    for param in params:
        known[param] = param
        known.update({var: var for var in symbolic_vars(param.struct_info)})
    return _Erase(known.get).visit(info)


# Calls


def infer_call(call: Any) -> StructInfo:
    """Infer the struct info of a call."""
    op = call.op
    if isinstance(op, Op):
        infer = op.spec.infer if op.spec is not None else op.get_attr("FInferStructInfo")
        if infer is None and op.op_type is not None:
            return _related(op, call)
        if infer is None:
            raise TypeMismatchError(
                f"nothing states the types of the operator {op.name}",
                notes=("op.add_type_rel(name, function) does for an operator of your own",),
            )
        if op.spec is not None:
            op.spec.check_count(len(call.args))
        if _is_spread(op, call):
            found: StructInfo = resolve("tilesmith.relax.op.sharding_rules:infer_sharded")(call)
            return found
        return infer(call)
    return derive_call_ret_struct_info(getattr(op, "struct_info", None), call)


def _is_spread(op: Op, call: Any) -> bool:
    """Return whether arguments of an operator, which does not know it, are spread over workers."""
    if call.sinfo_args or op.name.startswith(("relax.dist.", "relax.ccl.")):
        return False
    for arg in call.args:
        info = getattr(arg, "struct_info", None)
        parts = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if any(isinstance(one, DTensorStructInfo) for one in parts):
            return True
    return False


def _related(op: Op, call: Any) -> StructInfo:
    """Return the result that an operator's type relation gives."""
    if op.num_inputs >= 0 and len(call.args) != op.num_inputs:
        raise TypeMismatchError(
            f"{op.name} has {op.num_inputs} arguments, the call has {len(call.args)}"
        )
    (relation,) = op.op_type.type_constraints
    types = [type_of(known_struct_info(arg)) for arg in call.args]
    found = relation.func(types, call.attrs)
    if found is None:
        raise TypeMismatchError(
            f"the relation '{relation.func.name}' gives {op.name} no type for these arguments"
        )
    return struct_info_of(found)


def derive_call_ret_struct_info(func_sinfo: Any, call: Any, ctx: Any = None) -> StructInfo:
    """Infer the result of a call of a function with this struct info.

    Raises ShapeError or TypeMismatchError when the arguments do not fit the parameters.
    """
    if func_sinfo is None or not isinstance(func_sinfo, FuncStructInfo):
        return _of_arguments(call.sinfo_args, ObjectStructInfo())
    if func_sinfo.params is None:
        if func_sinfo.derive_func is not None:
            return func_sinfo.derive_func(call, ctx)
        return _of_arguments(call.sinfo_args, func_sinfo.ret)
    if len(call.args) != len(func_sinfo.params):
        raise TypeMismatchError(
            f"the function has {len(func_sinfo.params)} parameters, got {len(call.args)} arguments"
        )
    values: dict[Any, Any] = {}
    for number, (param, arg) in enumerate(zip(func_sinfo.params, call.args)):
        info = known_struct_info(arg)
        bind_sizes(param, info, values)
        check = struct_info_base_check(substitute_sizes(param, values), info)
        if check == BaseCheckResult.FAIL_L0:
            raise TypeMismatchError(
                f"argument {number} does not fit: the parameter is {describe(param)}, "
                f"the argument {describe(info)}"
            )
    bound = {var for param in func_sinfo.params for var in symbolic_vars(param)}
    return erase_to_well_defined(
        func_sinfo.ret, lambda var: values.get(var) if var in bound else var, lambda var: var
    )


def _of_arguments(given: tuple[StructInfo, ...], otherwise: StructInfo) -> StructInfo:
    if not given:
        return otherwise
    return given[0] if len(given) == 1 else TupleStructInfo(given)


def bind_sizes(param: StructInfo, arg: StructInfo, values: dict[Any, Any]) -> None:
    """Match a parameter with an argument; bind variables that stand alone as a size."""
    if isinstance(param, TupleStructInfo) and isinstance(arg, TupleStructInfo):
        for inner, given in zip(param.fields, arg.fields):
            bind_sizes(inner, given, values)
        return
    if type(param) is not type(arg):
        return
    if isinstance(param, (TensorStructInfo, ShapeStructInfo, DTensorStructInfo)):
        if isinstance(param.shape, ShapeExpr) and isinstance(arg.shape, ShapeExpr):
            for size, given in zip(param.shape, arg.shape):
                if isinstance(size, SymbolicVar):
                    values.setdefault(size, given)
    elif isinstance(param, PrimStructInfo) and isinstance(param.value, SymbolicVar):
        if arg.value is not None:
            values.setdefault(param.value, arg.value)


# Texts for errors


def size_text(size: PrimExpr) -> str:
    """Print a size for users: without the dtype of its constants."""
    if isinstance(size, IntImm):
        return str(size.value)
    return str(Printer(PrinterConfig(int_dtype="int64")).doc(size))


def describe(info: Any) -> str:
    """Print a struct info in few words: ``float32 tensor (1, 3, n)``."""
    if isinstance(info, DTensorStructInfo):
        return f"{describe(info.tensor_sinfo)} spread as '{info.placement.text}'"
    if isinstance(info, TensorStructInfo):
        dtype = "" if info.dtype.is_void else f"{info.dtype} "
        if isinstance(info.shape, ShapeExpr):
            sizes = ", ".join([size_text(size) for size in info.shape])
            return f"{dtype}tensor ({sizes})"
        return f"{dtype}tensor of rank {info.ndim if info.ndim >= 0 else 'unknown'}"
    if isinstance(info, ShapeStructInfo):
        if info.values is not None:
            return f"shape ({', '.join([size_text(size) for size in info.values])})"
        return f"shape of rank {info.ndim if info.ndim >= 0 else 'unknown'}"
    if isinstance(info, PrimStructInfo):
        return f"{info.dtype} scalar" + (f" {info.value}" if info.value is not None else "")
    if isinstance(info, TupleStructInfo):
        return f"tuple of {len(info.fields)}"
    if isinstance(info, FuncStructInfo):
        return "function"
    return "object"


def describe_arguments(call: Any) -> str:
    """Print the arguments of a call in few words."""
    shown = []
    for arg in call.args:
        name = getattr(arg, "name_hint", None)
        try:
            info = describe(known_struct_info(arg)) if isinstance(arg, RelaxExpr) else "?"
        except Exception:  # the error that is being explained comes first
            info = "?"
        shown.append(f"{name}: {info}" if name else info)
    return ", ".join(shown)


def tensor_info(expr: Any, what: str) -> TensorStructInfo:
    """Return the struct info of an argument that has to be a tensor."""
    info = known_struct_info(expr)
    if not isinstance(info, TensorStructInfo):
        raise TypeMismatchError(f"{what} must be a tensor, got {describe(info)}")
    return info


def sizes_of(info: TensorStructInfo) -> tuple[PrimExpr, ...] | None:
    """Return the sizes of a tensor, or None if its shape is not known."""
    if isinstance(info.shape, ShapeExpr):
        return info.shape.values
    if info.shape is not None:
        held = info.shape.struct_info
        if isinstance(held, ShapeStructInfo):
            return held.values
    return None


def check_rank(info: TensorStructInfo, rank: int, what: str) -> None:
    """Raise ShapeError unless a tensor has a rank (or its rank is unknown)."""
    if info.ndim not in (-1, rank):
        raise ShapeError(f"{what} must have {rank} dimensions, got {describe(info)}")
