"""Nodes of the graph IR.

A function is a sequence of bindings in A-normal form: the value of a binding is an operation whose
arguments are variables, constants, shapes, or tuples of them. A ``DataflowBlock`` holds bindings
without effects; its ``DataflowVar``s are seen only inside the block.

Each expression knows its ``struct_info`` (what is known about its value). It is given (variables,
constants) or inferred from the operands at first use, then cached. Graph nodes compare and hash by
identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilesmith.ir import (
    BaseFunc,
    GlobalVar,
    Node,
    Op,
    PrimExpr,
    RelaxExpr,
    Type,
    attributes,
    check_distinct,
    child,
    defines,
    note,
)
from tilesmith.ir import data as data_field
from tilesmith.ir.node import DIALECT_TEXT
from tilesmith.relax.attrs import Attrs
from tilesmith.relax.base import SYNTAX, VIEWS, Expr, ExprWithOp, GraphExpr, StructInfo
from tilesmith.relax.relations import (
    describe_arguments,
    erase_to_params,
    infer_call,
    struct_info_lca,
)
from tilesmith.relax.struct_info import (
    DataflowVar,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
    as_struct_info,
    known_struct_info,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import ShapeError, TilesmithError, TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "Binding", "BindingBlock", "Call", "Constant", "DataTypeImm", "DataflowBlock", "DataflowVar",
    "Expr", "ExprWithOp", "ExternFunc", "Function", "GraphExpr", "If", "MatchCast", "PrimValue",
    "SeqExpr", "ShapeExpr", "StringImm", "StructInfo", "Tuple", "TupleGetItem", "Var",
    "VarBinding", "const", "extern", "get_shape_of", "make_shape",
]  # fmt: skip


class Constant(ExprWithOp, key="relax.Constant"):
    """A tensor known at compile time; ``data`` is an NDArray."""

    is_atom = True

    data: NDArray = data_field()
    struct_info: StructInfo = child()
    span: Any = note(default=None)
    dialect: str = note(default="relax")

    def __init__(
        self,
        data: Any,
        struct_info: StructInfo | None = None,
        span: Any = None,
        dialect: str = "relax",
    ) -> None:
        self.data = data if isinstance(data, NDArray) else array(data)
        if struct_info is None:
            struct_info = TensorStructInfo(self.data.shape, self.data.dtype)
        self.struct_info = struct_info
        self.span = span
        self.dialect = dialect


class Tuple(ExprWithOp, key="relax.Tuple"):
    """A tuple of values."""

    fields: tuple[RelaxExpr, ...] = child()
    span: Any = note(default=None)

    def __init__(self, fields: Any, span: Any = None) -> None:
        self.fields = tuple([as_expr(field) for field in fields])
        self.span = span

    def _infer_struct_info(self) -> StructInfo:
        return TupleStructInfo(tuple([known_struct_info(field) for field in self.fields]))

    @property
    def dialect(self) -> str:  # type: ignore[override]
        """The door of the fields."""
        return dialect_of(*self.fields)

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)


class TupleGetItem(ExprWithOp, key="relax.TupleGetItem"):
    """A field of a tuple."""

    tuple_value: RelaxExpr = child()
    index: int = data_field()
    span: Any = note(default=None)

    def __init__(self, tuple_value: Any, index: int, span: Any = None) -> None:
        self.tuple_value = tuple_value
        self.index = int(index)
        self.span = span

    @property
    def dialect(self) -> str:  # type: ignore[override]
        """The door of the tuple."""
        return dialect_of(self.tuple_value)

    def _infer_struct_info(self) -> StructInfo:
        info = self.tuple_value.struct_info
        if isinstance(info, TupleStructInfo):
            if self.index >= len(info.fields):
                raise ShapeError(
                    f"field {self.index} of a tuple of {len(info.fields)}", span=self.span
                )
            return info.fields[self.index]
        return ObjectStructInfo()


class Call(ExprWithOp, key="relax.Call"):
    """A call of an operator, a function of the module, a local function, or a registered function.

    ``sinfo_args`` give struct info that the arguments do not imply (the result of ``call_tir``).
    Attributes are checked against the operator's schema.
    """

    op: Any = child()
    args: tuple[RelaxExpr, ...] = child()
    attrs: Attrs | None = child(default=None)
    sinfo_args: tuple[StructInfo, ...] = child(default=())
    span: Any = note(default=None)

    def __init__(
        self, op: Any, args: Any, attrs: Any = None, sinfo_args: Any = None, span: Any = None
    ) -> None:
        if isinstance(op, str):
            op = Op.get(op)
        self.op = op
        self.args = tuple([arg if isinstance(arg, RelaxExpr) else as_expr(arg) for arg in args])
        schema = op.get_attr("schema") if isinstance(op, Op) else None
        if schema is not None:
            attrs = schema.check(op.name, attrs)
        elif attrs is not None and not isinstance(attrs, Attrs):
            attrs = Attrs(attrs)
        self.attrs = attrs
        if sinfo_args is None:
            sinfo_args = ()
        elif not isinstance(sinfo_args, (list, tuple)):
            sinfo_args = (sinfo_args,)
        self.sinfo_args = tuple([as_struct_info(info) for info in sinfo_args])
        self.span = span

    @property
    def dialect(self) -> str:  # type: ignore[override]
        """The door of the operator, or of the function and its arguments."""
        return dialect_of(self)

    @property
    def type_args(self) -> tuple[Any, ...]:
        """The types that were given for the type parameters of the function."""
        return tuple([VIEWS["type"](info) for info in self.sinfo_args])

    def _infer_struct_info(self) -> StructInfo:
        try:
            return infer_call(self)
        except TilesmithError as error:
            name = self.op.name if isinstance(self.op, Op) else getattr(self.op, "name_hint", "")
            shown = describe_arguments(self)
            if not any(note.startswith("in the call") for note in error.notes):
                error.notes += (f"in the call {name}({shown})",)
            error.span = error.span or self.span
            raise


class If(ExprWithOp, key="relax.If"):
    """A choice by a condition (a boolean tensor of rank 0): between two sequences, or under the
    functional door between two expressions.
    """

    cond: RelaxExpr = child()
    true_branch: Any = child()
    false_branch: Any = child()
    span: Any = note(default=None)

    def __init__(self, cond: Any, true_branch: Any, false_branch: Any, span: Any = None) -> None:
        nests = dialect_of(cond, true_branch, false_branch) == "relay"
        self.cond = cond
        self.true_branch = true_branch if nests else as_seq(true_branch)
        self.false_branch = false_branch if nests else as_seq(false_branch)
        self.span = span

    @property
    def dialect(self) -> str:  # type: ignore[override]
        """The door of its parts."""
        return dialect_of(self.cond, self.true_branch, self.false_branch)

    def _infer_struct_info(self) -> StructInfo:
        return struct_info_lca(self.true_branch.struct_info, self.false_branch.struct_info)


class StringImm(GraphExpr, key="relax.StringImm"):
    """A string as a value of the graph."""

    value: str = data_field()
    span: Any = note(default=None)

    def _infer_struct_info(self) -> StructInfo:
        return ObjectStructInfo()


class DataTypeImm(GraphExpr, key="relax.DataTypeImm"):
    """A dtype as a value of the graph."""

    value: DataType = data_field(convert=DataType)
    span: Any = note(default=None)

    def _infer_struct_info(self) -> StructInfo:
        return ObjectStructInfo()


class Binding(Node, key="relax.Binding"):
    """Base of bindings: each binds a variable to a value."""

    if TYPE_CHECKING:

        @property
        def var(self) -> Var: ...

        @property
        def value(self) -> RelaxExpr: ...

        @property
        def span(self) -> Any: ...


class VarBinding(Binding, key="relax.VarBinding"):
    """``var = value``."""

    var: Var = defines()
    value: RelaxExpr = child()
    span: Any = note(default=None)


class MatchCast(Binding, key="relax.MatchCast"):
    """Binds ``var`` to ``value``, which is checked against ``struct_info`` at run time; variables
    that occur first in its sizes are bound.
    """

    structural_binds = ("struct_info",)

    var: Var = defines()
    value: RelaxExpr = child()
    struct_info: StructInfo = child()
    span: Any = note(default=None)


class BindingBlock(Node, key="relax.BindingBlock"):
    """A sequence of bindings."""

    bindings: tuple[Binding, ...] = child()
    span: Any = note(default=None)


class DataflowBlock(BindingBlock, key="relax.DataflowBlock"):
    """A sequence of bindings without effects and without branches."""


class SeqExpr(ExprWithOp, key="relax.SeqExpr"):
    """Blocks of bindings followed by the value ``body``."""

    blocks: tuple[BindingBlock, ...] = child()
    body: RelaxExpr = child()
    span: Any = note(default=None)

    def __init__(self, blocks: Any, body: Any, span: Any = None) -> None:
        self.blocks = tuple(blocks)
        self.body = as_expr(body)
        self.span = span

    def _infer_struct_info(self) -> StructInfo:
        return known_struct_info(self.body)


class Function(BaseFunc, GraphExpr, key="relax.Function"):
    """A function of the graph. ``is_pure``: calling it has no visible side effect."""

    structural_order = ("params", "body", "ret_struct_info", "is_pure", "attrs")

    params: tuple[Var, ...] = defines(scope="body")
    body: SeqExpr | None = child()
    ret_struct_info: StructInfo = child()
    is_pure: bool = data_field(default=True)
    attrs: Mapping[str, Any] = data_field(default=None)
    span: Any = note(default=None)

    def __init__(
        self,
        params: Any,
        body: Any,
        ret_struct_info: Any = None,
        is_pure: bool = True,
        attrs: Any = None,
        span: Any = None,
    ) -> None:
        self.params = tuple(params)
        for param in self.params:
            if not isinstance(param, Var) or param.struct_info is None:
                raise TypeMismatchError(
                    f"a parameter is a relax.Var with struct info, got {param!r}", span=span
                )
        check_distinct(self.params)
        self.body = None if body is None else as_seq(body)
        if ret_struct_info is None:
            if body is None:
                raise TypeMismatchError("a function without a body needs ret_struct_info", span)
            ret_struct_info = erase_to_params(self.body.struct_info, self.params)
        self.ret_struct_info = as_struct_info(ret_struct_info)
        self.is_pure = bool(is_pure)
        self.attrs = attributes(getattr(attrs, "values_", attrs))
        self.span = span

    @staticmethod
    def create_empty(
        params: Any, ret_struct_info: Any, is_pure: bool = True, attrs: Any = None, span: Any = None
    ) -> Function:
        """Return a function without a body: a declaration."""
        return Function(params, None, ret_struct_info, is_pure, attrs, span)

    def _infer_struct_info(self) -> StructInfo:
        return FuncStructInfo(
            [param.struct_info for param in self.params], self.ret_struct_info, self.is_pure
        )

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """Return a copy with symbolic sizes (variables, or their names) replaced."""
        made: Function = resolve("tilesmith.relax.binding:bind_symbolic_vars")(self, binding_map)
        return made

    def bind_params(self, binding_map: Mapping[Any, Any]) -> Function:
        """Return a copy with parameters (variables, or their names) replaced by constants."""
        made: Function = resolve("tilesmith.relax.binding:bind_params")(self, binding_map)
        return made

    def inline_functions(self, function_map: Mapping[Any, Function]) -> Function:
        """Return a copy with the calls of some functions (GlobalVars, or their names) inlined."""
        made: Function = resolve("tilesmith.relax.binding:inline_functions")(self, function_map)
        return made


class ExternFunc(BaseFunc, ExprWithOp, key="relax.ExternFunc"):
    """A function that is registered under a name (``register_func``) or linked."""

    global_symbol: str = data_field()
    struct_info: StructInfo = child()
    span: Any = note(default=None)

    attrs = attributes(None)

    def __init__(self, global_symbol: str, struct_info: Any = None, span: Any = None) -> None:
        self.global_symbol = str(getattr(global_symbol, "value", global_symbol))
        if struct_info is None:
            struct_info = FuncStructInfo.opaque_func(purity=False)
        self.struct_info = struct_info
        self.span = span


def as_expr(value: Any) -> RelaxExpr:
    """Convert a value to an expression of the graph: tuples and lists, strings, scalars, arrays."""
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, (tuple, list)):
        return Tuple(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (PrimExpr, bool, int, float)):
        return PrimValue(value)
    if hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
        return Constant(value)
    raise TypeMismatchError(f"cannot make a graph expression of {value!r} ({type(value).__name__})")


def dialect_of(*exprs: Any) -> str:
    """Return the door of some expressions: "relay" if one of them came through it. A variable, a
    constant or an operator tells its own; what is made of others has that of its parts.
    """
    stack: list[Any] = list(exprs)
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call):
            if isinstance(expr.op, Op):
                if not expr.op.name.startswith("relax."):
                    return "relay"
                continue
            stack.extend((expr.op, *expr.args))
        elif isinstance(expr, Tuple):
            stack.extend(expr.fields)
        elif isinstance(expr, TupleGetItem):
            stack.append(expr.tuple_value)
        elif isinstance(expr, If):
            stack.extend((expr.cond, expr.true_branch, expr.false_branch))
        elif isinstance(expr, GlobalVar):
            if isinstance(expr.struct_info, Type):  # what InferType has found
                return "relay"
        elif getattr(expr, "dialect", "relax") == "relay":
            return "relay"
    return "relax"


def as_seq(value: Any) -> SeqExpr:
    """Return an expression as a sequence without bindings; a sequence as it is."""
    return value if isinstance(value, SeqExpr) else SeqExpr((), value)


def const(value: Any, dtype: Any = None, dialect: str = "relax") -> Constant:
    """Make a constant tensor. Without ``dtype``, Python floats become float32 and Python integers
    int32; struct info of a tensor stands for its dtype. ``dialect``: the door that it is for.
    """
    import numpy

    if isinstance(value, Constant):
        value = value.data
    if isinstance(dtype, TensorStructInfo):
        dtype = None if dtype.dtype.is_void else dtype.dtype
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32"
        elif isinstance(value, float):
            dtype = "float32"
        elif isinstance(value, (list, tuple)):
            value = numpy.asarray(value)
            if value.dtype == "float64":
                dtype = "float32"
            elif value.dtype == "int64":
                dtype = "int32"
    return Constant(array(value, dtype=dtype), dialect=dialect)


def extern(name: str, struct_info: Any = None, span: Any = None) -> ExternFunc:
    """Return a function registered under a name."""
    return ExternFunc(name, struct_info, span)


def make_shape(shape: Any) -> ShapeExpr:
    """Make a shape from a list of sizes."""
    return ShapeExpr(shape)


def get_shape_of(expr: Any) -> RelaxExpr:
    """Return the shape of a tensor: its ShapeExpr if known, else a call of ``shape_of``."""
    info = expr.struct_info
    if isinstance(info, TensorStructInfo) and info.shape is not None:
        return info.shape
    return Call(Op.get("relax.shape_of"), (expr,))


# Python syntax


@SYNTAX.register("operator")
def _operation(name: str, *args: Any) -> Any:
    """Make a call of an elementwise operator; Python numbers take the dtype of the other
    operand.
    """
    tensor = next(arg for arg in args if isinstance(arg, RelaxExpr))
    dialect = dialect_of(*args)
    converted = []
    for arg in args:
        if not isinstance(arg, RelaxExpr):
            arg = const(arg, _number_dtype(arg, tensor), dialect)
        converted.append(arg)
    return Call(SYNTAX["name"](name) if dialect == "relay" else Op.get(name), converted)


def _number_dtype(value: Any, tensor: Any) -> Any:
    if not isinstance(value, (bool, int, float)):
        return None
    dtype = getattr(tensor.struct_info, "dtype", None)
    if dtype is None or dtype.is_void:
        return None
    return "float32" if isinstance(value, float) and not dtype.is_float else dtype


@SYNTAX.register("call")
def _call(function: Any, args: Any, attrs: Any) -> Call:
    return Call(function, args, attrs)


@SYNTAX.register("name")
def _functional_operator(name: str) -> Op:
    """Return the functional door's operator for one of Python's operators."""
    short = name.removeprefix("relax.")
    return Op.get({"floor_mod": "mod"}.get(short, short))


@SYNTAX.register("astype")
def _astype(value: ExprWithOp, dtype: Any) -> Call:
    name = "cast" if value.dialect == "relay" else "relax.astype"
    return Call(Op.get(name), (value,), {"dtype": dtype})


@SYNTAX.register("text")
def _text(value: ExprWithOp, show_meta_data: bool, annotate: Any) -> str:
    if value.dialect != "relay":
        return value.script(show_meta=show_meta_data)
    return DIALECT_TEXT["relay"](value, show_meta_data=show_meta_data, annotate=annotate)


@SYNTAX.register("index")
def _field(value: ExprWithOp, index: Any) -> TupleGetItem:
    """Return a field of a tuple; IndexError ends loops over its fields."""
    info = value.struct_info
    if isinstance(info, TupleStructInfo):
        if not -len(info.fields) <= int(index) < len(info.fields):
            raise IndexError(f"index {index} of a tuple of {len(info.fields)} fields")
        return TupleGetItem(value, int(index) % len(info.fields))
    if isinstance(info, (TensorStructInfo, ShapeStructInfo, PrimStructInfo)):
        raise TypeMismatchError(
            f"only tuples are indexed, this is {type(info).__name__[:-10].lower()}; take a part of "
            "a tensor with relax.op.strided_slice or relax.op.take"
        )
    return TupleGetItem(value, int(index))
