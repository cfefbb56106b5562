"""Prints scalar expressions, types, names of functions, and modules.

An operator is printed where evaluating it builds an equal node again; where it would fold or
convert, the constructor is printed (``T.Add(x, 0)``). So the text parses back to an equal node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import call_intrinsics, device_intrinsics, intrinsics, operators
from tilesmith.ir import expr as ir
from tilesmith.ir.adt import Constructor, TypeData
from tilesmith.ir.global_info import DummyGlobalInfo, VDevice
from tilesmith.ir.module import BaseFunc, IRModule
from tilesmith.ir.op import Op
from tilesmith.ir.printing import Doc, Level, Printer, call, joined, prints, prints_lines, quoted
from tilesmith.ir.printing.doc import listed, parenthesized, tupled
from tilesmith.ir.structural import structural_equal
from tilesmith.ir.tensor_type import TensorType
from tilesmith.ir.type_relation import TypeRelation
from tilesmith.ir.types import (
    FuncType,
    GlobalTypeVar,
    PointerType,
    PrimType,
    RelayRefType,
    TupleType,
    TypeCall,
    TypeVar,
)
from tilesmith.support.errors import TypeMismatchError

__all__ = ["as_written", "declaration", "type_doc"]


# Constants and variables.


@prints(ir.IntImm)
def _int_imm(node: ir.IntImm, printer: Printer) -> Doc:
    text = str(node.value)
    if node.dtype.is_bool:
        text = "True" if node.value else "False"
    elif node.dtype == printer.config.int_dtype:
        return Doc(text, level=Level.UNARY if node.value < 0 else Level.ATOM, node=node)
    return Doc(f"{printer.word('T')}.{node.dtype}({text})", node=node)


@prints(ir.FloatImm)
def _float_imm(node: ir.FloatImm, printer: Printer) -> Doc:
    value = node.value
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        text = f'"{text}"'
    else:
        text = f"{value:.1f}" if value.is_integer() else f"{value:.17g}"
    if node.dtype == printer.config.float_dtype and not text.startswith('"'):
        return Doc(text, level=Level.UNARY if value < 0 else Level.ATOM, node=node)
    return Doc(f"{printer.word('T')}.{node.dtype}({text})", node=node)


@prints(ir.StringImm)
def _string_imm(node: ir.StringImm, printer: Printer) -> Doc:
    return Doc(quoted(node.value), node=node)


def type_doc(type_: Any, printer: Printer) -> Any:
    """Return a type as an annotation: ``T.int32``, ``T.handle("float32", "global")``, ``None``."""
    if isinstance(type_, PrimType):
        return f"{printer.word('T')}.{type_.dtype}"
    if isinstance(type_, PointerType):
        element = type_.element_type
        if isinstance(element, PrimType):
            inside: Any = quoted(str(element.dtype))
        else:
            inside = type_doc(element, printer)
        return call(f"{printer.word('T')}.handle", [inside, quoted(type_.storage_scope)])
    if isinstance(type_, TupleType) and not type_.fields:
        return "None"
    if isinstance(type_, TupleType) and _is_script_type(type_):
        fields = [type_doc(inner, printer) for inner in type_.fields]
        return call(f"{printer.word('T')}.Tuple", fields)
    if isinstance(type_, TupleType):
        return tupled(printer.docs(type_.fields))
    return printer.doc(type_)


def _is_script_type(type_: Any) -> bool:
    """True for the types that scripts can name: those of variables of kernels."""
    if isinstance(type_, TupleType):
        return not [field for field in type_.fields if not _is_script_type(field)]
    return isinstance(type_, (PrimType, PointerType))


@prints(PrimType, PointerType, TupleType)
def _type(node: Any, printer: Printer) -> Doc:
    return Doc(type_doc(node, printer), node=node)


# Types of the functional graph IR: for people, no script reads them.


@prints(TypeVar, GlobalTypeVar)
def _type_name(node: Any, printer: Printer) -> Doc:
    return Doc(node.name_hint, node=node)


@prints(TensorType)
def _tensor_type(node: TensorType, printer: Printer) -> Doc:
    shape = tupled(printer.docs(node.shape))
    return Doc("Tensor[", shape, f", {node.dtype}]", node=node)


@prints(TypeCall)
def _type_call(node: TypeCall, printer: Printer) -> Doc:
    arguments = joined(printer.docs(node.args))
    return Doc(printer.doc(node.func), "[", arguments, "]", node=node)


@prints(FuncType)
def _func_type(node: FuncType, printer: Printer) -> Doc:
    variables = joined(printer.docs(node.type_params))
    parameters = Doc("[", variables, "]") if node.type_params else ""
    arguments = joined(printer.docs(node.arg_types))
    text = Doc("fn ", parameters, "(", arguments, ") -> ", printer.doc(node.ret_type), node=node)
    if not node.type_constraints:
        return text
    constraints = joined(printer.docs(node.type_constraints))
    return Doc(text, " where ", constraints, node=node)


@prints(RelayRefType)
def _reference_type(node: RelayRefType, printer: Printer) -> Doc:
    return Doc("ref(", printer.doc(node.value), ")", node=node)


@prints(TypeRelation)
def _type_relation(node: TypeRelation, printer: Printer) -> Doc:
    return call(node.func.name, printer.docs(node.args), node=node)


@prints(Constructor)
def _constructor_of_data(node: Constructor, printer: Printer) -> Doc:
    return call(node.name_hint, printer.docs(node.inputs), node=node)


@prints(TypeData)
def _type_data(node: TypeData, printer: Printer) -> Doc:
    variables = joined(printer.docs(node.type_vars))
    parameters = Doc("[", variables, "]") if node.type_vars else ""
    constructors = joined(printer.docs(node.constructors))
    header = printer.doc(node.header)
    return Doc("type ", header, parameters, " { ", constructors, " }", node=node)


def declaration(var: ir.Var, printer: Printer) -> Any:
    """Return the call that makes a variable of this type: ``T.int32()``."""
    if isinstance(var.type_annotation, PointerType):
        return type_doc(var.type_annotation, printer)
    size = "is_size_var=True" if isinstance(var, ir.SizeVar) else ""
    return Doc(type_doc(var.type_annotation, printer), f"({size})")


@prints(ir.Var)
def _var(node: ir.Var, printer: Printer) -> Doc:
    name = printer.defined(node)
    if name is None:
        name = printer.declare_free(node, node.name, declaration(node, printer))
    return Doc(name, node=node)


# Operators.


def as_written(node: Any, printer: Printer) -> Any:
    """Return the value that the parser passes to a function for ``node``: a Python int for a bare
    number.
    """
    if node.__class__ is ir.IntImm and node.dtype == printer.config.int_dtype:
        return node.value
    if node.__class__ is ir.StringImm:
        return node.value
    return node


def _same(made: Any, node: Any) -> bool:
    """True if printing reproduces this operand; constants are made anew, so equal ones count."""
    if made is node:
        return True
    if made.__class__ is not node.__class__:
        return False
    if node.__class__ is ir.IntImm:
        return made.dtype is node.dtype and made.value == node.value
    return node.__class__ is ir.StringImm and made.value == node.value


def _gives_back(function: Callable[..., Any], node: Any, printer: Printer) -> bool:
    """True if the function, applied to both operands as printed, builds this node again."""
    try:
        made = function(as_written(node.a, printer), as_written(node.b, printer))
    except Exception:  # broken IR: the constructor is printed, which shows it as it is
        return False
    return made.__class__ is node.__class__ and _same(made.a, node.a) and _same(made.b, node.b)


_OPERATORS: dict[type, tuple[str, int, int, Callable[..., Any]]] = {
    ir.Add: (" + ", Level.SUM, Level.SUM + 1, operators.add),
    ir.Sub: (" - ", Level.SUM, Level.SUM + 1, operators.subtract),
    ir.Mul: (" * ", Level.PRODUCT, Level.PRODUCT + 1, operators.multiply),
    ir.Div: (" / ", Level.PRODUCT, Level.PRODUCT + 1, operators.divide),
    ir.FloorDiv: (" // ", Level.PRODUCT, Level.PRODUCT + 1, operators.floordiv),
    ir.FloorMod: (" % ", Level.PRODUCT, Level.PRODUCT + 1, operators.floormod),
    ir.EQ: (" == ", Level.COMPARE, Level.SUM, operators.equal),
    ir.NE: (" != ", Level.COMPARE, Level.SUM, operators.not_equal),
    ir.LT: (" < ", Level.COMPARE, Level.SUM, operators.less),
    ir.LE: (" <= ", Level.COMPARE, Level.SUM, operators.less_equal),
    ir.GT: (" > ", Level.COMPARE, Level.SUM, operators.greater),
    ir.GE: (" >= ", Level.COMPARE, Level.SUM, operators.greater_equal),
    ir.And: (" and ", Level.AND, Level.AND + 1, operators.logical_and),
    ir.Or: (" or ", Level.OR, Level.OR + 1, operators.logical_or),
}  # text, level of the whole, level that the right operand needs, the operator
_FUNCTIONS: dict[type, tuple[str, Callable[..., Any]]] = {
    ir.Min: ("min", operators.minimum),
    ir.Max: ("max", operators.maximum),
    ir.Mod: ("truncmod", operators.truncmod),
}


def _twice_the_same(node: ir.BinaryOp) -> bool:
    """True if both operands are equal. ``T.max(x, x)`` folds only if both are one object, and
    parsing may make them one.
    """
    if not isinstance(node, (ir.Min, ir.Max)) or node.a.__class__ is not node.b.__class__:
        return False
    return structural_equal(node.a, node.b)


@prints(ir.BinaryOp)
def _binary(node: ir.BinaryOp, printer: Printer) -> Doc:
    a, b = printer.doc(node.a), printer.doc(node.b)
    written = _OPERATORS.get(node.__class__)
    # Python itself would evaluate an operator between two bare numbers.
    bare = isinstance(as_written(node.a, printer), int)
    bare = bare and isinstance(as_written(node.b, printer), int)
    if written is not None and not bare and _gives_back(written[3], node, printer):
        text, level, right, _ = written
        # A comparison of comparisons would be read as a chain.
        left = right if level == Level.COMPARE else level
        return Doc(parenthesized(a, left), text, parenthesized(b, right), level=level, node=node)
    function = _FUNCTIONS.get(node.__class__)
    if function is not None and _twice_the_same(node):
        function = None
    if function is not None and _gives_back(function[1], node, printer):
        return call(f"{printer.word('T')}.{function[0]}", [a, b], node=node)
    return call(f"{printer.word('T')}.{type(node).__name__}", [a, b], node=node)


@prints(ir.Not)
def _not(node: ir.Not, printer: Printer) -> Doc:
    operand = printer.doc(node.a)
    made = operators.logical_not(node.a)
    if isinstance(made, ir.Not) and made.a is node.a:
        return Doc("not ", parenthesized(operand, Level.NOT), level=Level.NOT, node=node)
    return call(f"{printer.word('T')}.Not", [operand], node=node)


@prints(ir.Cast)
def _cast(node: ir.Cast, printer: Printer) -> Doc:
    return call(
        f"{printer.word('T')}.Cast", [quoted(str(node.dtype)), printer.doc(node.value)], node=node
    )


@prints(ir.Select, ir.Ramp, ir.Broadcast, ir.Shuffle)
def _constructor(node: Any, printer: Printer) -> Doc:
    values = [printer.doc(value) for _, value in node.field_values()]
    return call(f"{printer.word('T')}.{type(node).__name__}", values, node=node)


@prints(ir.Let)
def _let(node: ir.Let, printer: Printer) -> Doc:
    value = printer.doc(node.value)
    name = printer.defined(node.var)
    if name is None:
        name = printer.define(node.var, node.var.name)
        printer.line(name, " = ", declaration(node.var, printer))
    where = Doc("{", Doc(name, node=node.var), ": ", value, "}")
    return call(f"{printer.word('T')}.Let", [printer.doc(node.body)], node=node, where=where)


# Calls.

# Functions of TVMScript that only make the call of the same name.
_PACKED = ("call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered")


def _script_function(name: str) -> Callable[..., Any] | None:
    for module in (intrinsics, call_intrinsics, device_intrinsics):
        if name in module.__all__:
            found: Callable[..., Any] = getattr(module, name)
            return found
    if name in _PACKED:
        return lambda function, *args: _packed(name, function, args)
    if name == "address_of":
        return lambda load: ir.Call("handle", "tir.address_of", (load,))
    return None


def _packed(name: str, function: Any, args: tuple[Any, ...]) -> ir.Call:
    """Return the call that ``T.call_packed`` makes; a call that does not begin with a name is an
    error.
    """
    if not isinstance(function, (str, ir.StringImm)):
        raise TypeMismatchError("a packed call begins with the name of the function")
    arguments = tuple([ir.convert(arg) for arg in (function, *args)])
    return ir.Call("int32", "tir.tvm_" + name, arguments)


@prints(ir.Call)
def _call(node: ir.Call, printer: Printer) -> Doc:
    arguments = printer.docs(node.args)
    word = printer.word("T")
    if isinstance(node.op, ir.GlobalVar):
        function = printer.doc(node.op)
        if node.dtype == printer.results.get(node.op, "void") and node.args:
            return call(function, arguments, node=node)
        return call(
            f"{word}.Call", [quoted(str(node.dtype)), function, listed(arguments)], node=node
        )
    if not isinstance(node.op, Op):
        return call(
            f"{word}.Call",
            [quoted(str(node.dtype)), printer.doc(node.op), listed(arguments)],
            node=node,
        )
    name = node.op.get_attr("TScriptPrinterName", node.op.name)
    place = node.op.get_attr("TScriptDtypePrintLocation", "")
    made_by = _script_function(name)
    if made_by is not None and _call_gives_back(made_by, node, place, printer):
        dtype = quoted(str(node.dtype))
        if place == "first":
            arguments = [dtype, *arguments]
        elif place == "last":
            arguments = [*arguments, dtype]
        return call(f"{word}.{name}", arguments, node=node)
    arguments = [quoted(str(node.dtype)), quoted(node.op.name), *arguments]
    return call(f"{word}.call_intrin", arguments, node=node)


def _call_gives_back(
    function: Callable[..., Any], node: ir.Call, place: str, printer: Printer
) -> bool:
    arguments = [as_written(arg, printer) for arg in node.args]
    if place == "first":
        arguments = [node.dtype, *arguments]
    elif place == "last":
        arguments = [*arguments, node.dtype]
    try:
        made = function(*arguments)
    except Exception:  # the function does not take these arguments: the constructor is printed
        return False
    if made.__class__ is not ir.Call or made.op is not node.op or made.dtype is not node.dtype:
        return False
    return len(made.args) == len(node.args) and all(
        _same(a, b) for a, b in zip(made.args, node.args)
    )


@prints(ir.GlobalVar)
def _global_var(node: ir.GlobalVar, printer: Printer) -> Doc:
    name = printer.functions.get(node)
    if name is not None:
        return Doc(f"{printer.config.module_alias}.{name}", node=node)
    return Doc(f"{printer.word('I')}.GlobalVar({quoted(node.name_hint)})", node=node)


@prints(Op)
def _op(node: Op, printer: Printer) -> Doc:
    return Doc(f"{printer.word('I')}.Op({quoted(node.name)})", node=node)


@prints(ir.Range)
def _range(node: ir.Range, printer: Printer) -> Doc:
    """Print a range outside of statements as begin and end; statements print slices."""
    low, extent = node.min, node.extent
    zero = isinstance(low, ir.IntImm) and low.value == 0
    both = isinstance(low, ir.IntImm) and isinstance(extent, ir.IntImm)
    stop = extent if zero else operators.add(low, extent) if both else ir.Add(low, extent)
    return call(f"{printer.word('T')}.Range", [printer.doc(low), printer.doc(stop)], node=node)


# Modules.


@prints(DummyGlobalInfo)
def _dummy_global_info(node: DummyGlobalInfo, printer: Printer) -> Doc:
    return call(f"{printer.word('I')}.dummy_global_info", [], node=node)


@prints(VDevice)
def _vdevice(node: VDevice, printer: Printer) -> Doc:
    target = node.target
    config = target.export() if hasattr(target, "export") else target
    arguments = [printer.doc(config), str(node.vdevice_id), quoted(node.memory_scope)]
    return call(f"{printer.word('I')}.vdevice", arguments, node=node)


@prints_lines(IRModule)
def _module(node: IRModule, printer: Printer) -> None:
    word = printer.word("I")
    printer.line(f"@{word}.ir_module")
    printer.line(f"class {printer.config.name or 'Module'}:", node=node)
    with printer.block():
        if node.attrs:
            printer.line(f"{word}.module_attrs(", printer.mapping(node.attrs), ")")
        if node.global_infos:
            printer.line(f"{word}.module_global_infos(", printer.mapping(node.global_infos), ")")
        for definition in node.type_definitions.values():  # scripts have no words for them
            printer.line("# ", printer.doc(definition), node=definition)
        printer.state["global_infos"] = node.global_infos
        names = {}
        functions = _in_order(node)
        for variable, _ in functions:
            names[variable] = name = printer.fresh_name(variable.name_hint)
            if name != variable.name_hint:
                printer.line(f"{name} = {word}.decl_function(", quoted(variable.name_hint), ")")
        printer.functions = names
        printer.results = {
            variable: result.dtype
            for variable, function in node.functions.items()
            if isinstance(result := getattr(function, "ret_type", None), ir.PrimType)
        }
        for number, (variable, function) in enumerate(functions):
            if number:
                printer.blank()
            _function(function, names[variable], printer)
        printer.functions, printer.results = {}, {}


def _in_order(module: IRModule) -> list[tuple[ir.GlobalVar, BaseFunc]]:
    """Sort the functions: external ones, then tensor functions, then graph functions that call
    them, each kind by name.
    """

    def place(item: tuple[ir.GlobalVar, BaseFunc]) -> tuple[bool, bool, str]:
        variable, function = item
        return hasattr(function, "ret_struct_info"), hasattr(function, "body"), variable.name_hint

    return sorted(module.functions.items(), key=place)


def _function(function: BaseFunc, name: str, printer: Printer) -> None:
    """Print one function of a module; a class without a printer becomes a skeleton in comments.

    One without a body, which stands for a function elsewhere, is printed as a value.
    """
    if printer.writes_lines(function):
        printer.function_name = name
        printer.write(function)
        printer.function_name = None
    elif not hasattr(function, "body") and printer.has_rule(function):
        printer.line(f"{name} = ", printer.doc(function), node=function)
    else:
        printer.line(f"# {name} = ", joined([printer.doc(function)]))
