"""Prints the graph in the ``R`` dialect.

    @R.function
    def main(x: R.Tensor(("n", 784), dtype="float32")) -> R.Tensor(("n", 10), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((n, 784), dtype="float32"))
            gv: R.Tensor((n, 10), dtype="float32") = R.matmul(lv, metadata["…Constant"][0])
            R.output(gv)
        return gv

Attributes that have their default are left out. Sizes are int64 and are written without the dtype.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op, PrimExpr, structural_equal
from tilesmith.ir.printing import Doc, Printer, call, joined, prints, prints_lines, quoted
from tilesmith.ir.printing.doc import listed, tupled
from tilesmith.relax.analysis.variables import bindings_of
from tilesmith.relax.attrs import Attrs
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
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
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.relations import symbolic_vars
from tilesmith.relax.sharding import DeviceMesh, DTensorStructInfo, Placement
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

CONSTANTS = "relax.expr.Constant"


# Sizes


def size(value: PrimExpr, printer: Printer) -> Any:
    """Print a size: int64 constants without their dtype; in quotes in a signature."""
    text = plain_size(value, printer)
    if printer.state.get("relax.quoted") and symbolic_vars(value):
        return quoted(str(text))
    return text


def plain_size(value: PrimExpr, printer: Printer) -> Any:
    """Print a scalar expression of int64."""
    before = printer.config.int_dtype
    printer.config.int_dtype = "int64"
    try:
        return printer.doc(value)
    finally:
        printer.config.int_dtype = before


def sizes(values: Any, printer: Printer) -> Any:
    """Print sizes in parentheses."""
    return tupled([size(value, printer) for value in values])


# Struct info


def _shape(shape: Any, printer: Printer) -> Any:
    if shape is None:
        return None
    return sizes(shape, printer) if isinstance(shape, ShapeExpr) else printer.doc(shape)


@prints(TensorStructInfo)
def _tensor(info: TensorStructInfo, printer: Printer) -> Doc:
    shape = _shape(info.shape, printer)
    dtype = None if info.dtype.is_void else quoted(info.dtype)
    ndim = str(info.ndim) if shape is None and info.ndim != -1 else None
    vdevice = None if info.vdevice is None else quoted(vdevice_text(info.vdevice, printer))
    return call(
        f"{printer.word('R')}.Tensor",
        [] if shape is None else [shape],
        dtype=dtype,
        ndim=ndim,
        vdevice=vdevice,
        node=info,
    )


@prints(DTensorStructInfo)
def _dtensor(info: DTensorStructInfo, printer: Printer) -> Doc:
    shape, whole = _shape(info.shape, printer), info.tensor_sinfo
    return call(
        f"{printer.word('R')}.DTensor",
        [] if shape is None else [shape],
        dtype=None if whole.dtype.is_void else quoted(whole.dtype),
        ndim=str(whole.ndim) if shape is None and whole.ndim != -1 else None,
        device_mesh=_mesh_place(info.device_mesh, printer),
        placement=quoted(info.placement.text),
        node=info,
    )


def _mesh_place(mesh: DeviceMesh, printer: Printer) -> Any:
    """Print ``"mesh[0]"`` for a mesh of the module, else the mesh itself."""
    for name, infos in (printer.state.get("global_infos") or {}).items():
        for number, one in enumerate(infos):
            if isinstance(one, DeviceMesh) and one == mesh:
                return quoted(f"{name}[{number}]")
    return printer.doc(mesh)


@prints(DeviceMesh)
def _mesh(mesh: DeviceMesh, printer: Printer) -> Doc:
    ids = mesh.device_ids
    in_order = ids == tuple(range(ids[0], ids[0] + len(ids))) if ids else False
    numbers = f"{printer.word('I')}.Range({ids[0]}, {ids[-1] + 1})" if in_order else str(list(ids))
    return call(f"{printer.word('R')}.device_mesh", [str(mesh.shape), numbers], node=mesh)


@prints(Placement)
def _placement(placement: Placement, printer: Printer) -> Doc:
    return Doc(quoted(placement.text), node=placement)


def vdevice_text(vdevice: Any, printer: Printer) -> str:
    """Print ``cuda:1:global``: the kind of target of a virtual device, which one of that kind in
    the module (outside of a module, its own number), and its memory scope.
    """
    if isinstance(vdevice, str):
        return vdevice
    kind = _kind_of(vdevice)
    alike = [
        one
        for one in (printer.state.get("global_infos") or {}).get("vdevice", ())
        if _kind_of(one) == kind
    ]
    places = [number for number, one in enumerate(alike) if structural_equal(one, vdevice)]
    index = places[0] if places else vdevice.vdevice_id
    return f"{kind}:{index}:{vdevice.memory_scope}"


def _kind_of(vdevice: Any) -> str:
    return str(getattr(getattr(vdevice.target, "kind", None), "name", vdevice.target))


@prints(ShapeStructInfo)
def _shape_info(info: ShapeStructInfo, printer: Printer) -> Doc:
    word = f"{printer.word('R')}.Shape"
    if info.values is not None:
        return call(word, [listed([size(value, printer) for value in info.values])], node=info)
    ndim = str(info.ndim) if info.ndim != -1 else None
    return call(word, [], ndim=ndim, node=info)


@prints(PrimStructInfo)
def _prim_info(info: PrimStructInfo, printer: Printer) -> Doc:
    word = f"{printer.word('R')}.Prim"
    if info.value is None:
        return call(word, [quoted(info.dtype)], node=info)
    value = printer.doc(info.value) if info.dtype != "int64" else size(info.value, printer)
    return call(word, [], value=value, node=info)


@prints(ObjectStructInfo)
def _object_info(info: ObjectStructInfo, printer: Printer) -> Doc:
    return Doc(f"{printer.word('R')}.Object", node=info)


@prints(TupleStructInfo)
def _tuple_info(info: TupleStructInfo, printer: Printer) -> Doc:
    return call(f"{printer.word('R')}.Tuple", printer.docs(info.fields), node=info)


@prints(FuncStructInfo)
def _func_info(info: FuncStructInfo, printer: Printer) -> Doc:
    word = f"{printer.word('R')}.Callable"
    ret = None if isinstance(info.ret, ObjectStructInfo) else printer.doc(info.ret)
    if info.params is None:
        return call(word, [], ret=ret, purity=repr(info.purity), node=info)
    arguments = [tupled(printer.docs(info.params)), printer.doc(info.ret), repr(info.purity)]
    return call(word, arguments, node=info)


# Leaves


@prints(Var)
def _var(var: Var, printer: Printer) -> Any:
    name = printer.defined(var)
    if name is not None:
        return Doc(name, node=var)
    info = printer.doc(known_struct_info(var))
    how = call(f"{printer.word('R')}.Var", [quoted(var.name_hint), info])
    return Doc(printer.declare_free(var, var.name_hint, how), node=var)


@prints(Constant)
def _constant(constant: Constant, printer: Printer) -> Doc:
    views = printer.state.setdefault("relax.constants", {})
    array = views.get(id(constant.data))
    if array is None:
        array = views[id(constant.data)] = constant.data.__array__()
    dtype = constant.data.dtype
    if array.ndim == 0:
        return call(
            f"{printer.word('R')}.const",
            [_number(array, dtype, printer), quoted(dtype)],
            node=constant,
        )
    reference = printer.array(CONSTANTS, array, dtype)
    if isinstance(constant.struct_info, DTensorStructInfo):
        spread = [reference, printer.doc(constant.struct_info)]
        return call(f"{printer.word('R')}.dist.const", spread, node=constant)
    return Doc(reference, node=constant)


def _number(array: Any, dtype: Any, printer: Printer) -> Any:
    if dtype.is_bool:
        return repr(bool(array))
    return printer.doc(int(array) if dtype.is_integer else float(array))


@prints(PrimValue)
def _prim_value(value: PrimValue, printer: Printer) -> Doc:
    text = (
        printer.doc(value.value)
        if value.value.dtype != "int64"
        else plain_size(value.value, printer)
    )
    return call(f"{printer.word('R')}.prim_value", [text], node=value)


@prints(StringImm)
def _string(value: StringImm, printer: Printer) -> Doc:
    return call(f"{printer.word('R')}.str", [quoted(value.value)], node=value)


@prints(DataTypeImm)
def _dtype(value: DataTypeImm, printer: Printer) -> Doc:
    return call(f"{printer.word('R')}.dtype", [quoted(value.value)], node=value)


@prints(ShapeExpr)
def _shape_expr(value: ShapeExpr, printer: Printer) -> Doc:
    values = listed([plain_size(item, printer) for item in value.values])
    return call(f"{printer.word('R')}.shape", [values], node=value)


@prints(ExternFunc)
def _extern(value: ExternFunc, printer: Printer) -> Doc:
    arguments = [quoted(value.global_symbol)]
    info = value.struct_info
    if not (isinstance(info, FuncStructInfo) and info.params is None and not info.purity):
        arguments.append(printer.doc(info))
    return call(f"{printer.word('R')}.ExternFunc", arguments, node=value)


@prints(Tuple)
def _tuple(value: Tuple, printer: Printer) -> Doc:
    if not value.fields:
        return Doc(f"{printer.word('R')}.tuple()", node=value)
    return Doc(tupled(printer.docs(value.fields)), node=value)


@prints(TupleGetItem)
def _get_item(value: TupleGetItem, printer: Printer) -> Doc:
    if isinstance(value.tuple_value, Var):
        return Doc(printer.doc(value.tuple_value), f"[{value.index}]", node=value)
    arguments = [printer.doc(value.tuple_value), str(value.index)]
    return call(f"{printer.word('R')}.TupleGetItem", arguments, node=value)


# Calls


@prints(Call)
def _call(value: Call, printer: Printer) -> Doc:
    op = value.op
    if isinstance(op, Op):
        special = _SPECIAL.get(op.spec.execution) if op.spec is not None else None
        if special is not None:
            return special(value, printer)
        return _operator_call(value, printer)
    arguments = printer.docs(value.args)
    infos = _given_infos(value, printer)
    if isinstance(op, ExternFunc):
        word = f"{printer.word('R')}.call_packed"
        return call(word, [_callee(op, printer), *arguments], sinfo_args=infos, node=value)
    return call(printer.doc(op), arguments, sinfo_args=infos, node=value)


def _given_infos(value: Call, printer: Printer) -> Any:
    return tupled(printer.docs(value.sinfo_args)) if value.sinfo_args else None


def attributes(attrs: Attrs | None, printer: Printer) -> dict[str, Any]:
    """Return the attributes that differ from their defaults."""
    shown = {}
    for name, value in attrs.items() if attrs is not None else ():
        if attrs.schema is not None and attrs.schema.fields[name].default == value:
            continue
        shown[name] = printer.doc(value)
    return shown


def _operator_call(value: Call, printer: Printer) -> Doc:
    name = value.op.name.removeprefix("relax.")
    word = f"{printer.word('R')}.{name}"
    named = attributes(value.attrs, printer)
    return call(
        word, printer.docs(value.args), node=value, **named, sinfo_args=_given_infos(value, printer)
    )


def _callee(callee: Any, printer: Printer) -> Any:
    if isinstance(callee, ExternFunc) and callee.struct_info.params is None:
        return quoted(callee.global_symbol)
    return printer.doc(callee)


def _out_info(value: Call, printer: Printer) -> Any:
    info = value.sinfo_args[0]
    if isinstance(info, TupleStructInfo):
        return listed(printer.docs(info.fields))
    return printer.doc(info)


def _destination_call(value: Call, printer: Printer) -> Doc:
    arguments = [_callee(value.args[0], printer), printer.doc(value.args[1])]
    tir_vars = printer.doc(value.args[2]) if len(value.args) > 2 else None
    named = attributes(value.attrs, printer)
    word = f"{printer.word('R')}.{value.op.name.removeprefix('relax.')}"
    return call(
        word, arguments, **named, out_sinfo=_out_info(value, printer), tir_vars=tir_vars, node=value
    )


def _packed_call(value: Call, printer: Printer) -> Doc:
    arguments = [_callee(value.args[0], printer), *printer.docs(value.args[1:])]
    word = f"{printer.word('R')}.{value.op.name.removeprefix('relax.')}"
    named = attributes(value.attrs, printer)
    return call(word, arguments, **named, sinfo_args=_given_infos(value, printer), node=value)


_SPECIAL = {
    Execution.CALL_TIR: _destination_call,
    Execution.CALL_DPS_PACKED: _destination_call,
    Execution.CALL_PACKED: _packed_call,
    Execution.CALL_BUILTIN: _packed_call,
}


@prints(Attrs)
def _attrs(value: Attrs, printer: Printer) -> Doc:
    pieces = [Doc(name, "=", printer.doc(item)) for name, item in value.items()]
    return Doc("Attrs(", joined(pieces), ")", node=value)


# Bindings


def _needs_annotation(binding: Any, printer: Printer) -> bool:
    info = binding.var.struct_info
    if info is None:
        return False
    value = binding.value
    # As written: the parser gives a variable without annotation what its value has, and sizes that
    # are equal (`n * 2`, `2 * n`) may be written in two ways.
    if isinstance(binding, MatchCast):
        return not structural_equal(info, binding.struct_info)
    if not structural_equal(info, known_struct_info(value)):
        return True
    if isinstance(value, Call) and value.sinfo_args:
        return False
    return printer.config.show_all_struct_info


@prints_lines(VarBinding)
def _var_binding(binding: VarBinding, printer: Printer) -> None:
    value = binding.value
    if isinstance(value, If):
        _if(binding, printer)
    elif isinstance(value, Function):
        name = printer.define(binding.var, binding.var.name_hint)
        write_function(value, printer, name)
    else:
        _assign(binding, printer.doc(value), printer)


def _assign(binding: Binding, value: Any, printer: Printer) -> None:
    annotation = None
    if _needs_annotation(binding, printer):
        annotation = printer.doc(known_struct_info(binding.var))
    name = Doc(printer.define(binding.var, binding.var.name_hint), node=binding.var)
    if annotation is None:
        printer.line(name, " = ", value, node=binding)
    else:
        printer.line(name, ": ", annotation, " = ", value, node=binding)


@prints_lines(MatchCast)
def _match_cast(binding: MatchCast, printer: Printer) -> None:
    arguments = [printer.doc(binding.value), printer.doc(binding.struct_info)]
    _assign(binding, call(f"{printer.word('R')}.match_cast", arguments), printer)


def _if(binding: VarBinding, printer: Printer) -> None:
    choice = binding.value
    condition = printer.doc(choice.cond)
    info = printer.doc(known_struct_info(binding.var))
    name = printer.define(binding.var, binding.var.name_hint)
    for head, branch in (
        (Doc("if ", condition, ":"), choice.true_branch),
        ("else:", choice.false_branch),
    ):
        printer.line(head, node=choice)
        with printer.block():
            for block in branch.blocks:
                printer.write(block)
            printer.line(name, ": ", info, " = ", printer.doc(branch.body))


@prints_lines(DataflowBlock)
def _dataflow_block(block: DataflowBlock, printer: Printer) -> None:
    printer.line(f"with {printer.word('R')}.dataflow():", node=block)
    printer.depth += 1  # not a scope of names: outputs are visible after it
    for binding in block.bindings:
        printer.write(binding)
    outputs = [b.var for b in block.bindings if not isinstance(b.var, DataflowVar)]
    names = joined([printer.doc(var) for var in outputs])
    printer.line(f"{printer.word('R')}.output(", names, ")")
    printer.depth -= 1


@prints_lines(BindingBlock)
def _binding_block(block: BindingBlock, printer: Printer) -> None:
    for binding in block.bindings:
        printer.write(binding)


@prints_lines(SeqExpr)
def _seq(sequence: SeqExpr, printer: Printer) -> None:
    for block in sequence.blocks:
        printer.write(block)
    printer.line(printer.doc(sequence.body))


@prints_lines(If)
def _if_alone(choice: If, printer: Printer) -> None:
    for head, branch in (
        (Doc("if ", printer.doc(choice.cond), ":"), choice.true_branch),
        ("else:", choice.false_branch),
    ):
        printer.line(head, node=choice)
        with printer.block():
            printer.write(branch)


# Functions


def symbolic_sizes(function: Function) -> list[Any]:
    """Return the size variables that occur in a function, in order."""
    found: dict[Any, None] = {}
    for param in function.params:
        found.update(dict.fromkeys(symbolic_vars(known_struct_info(param))))
    for binding in bindings_of(function):
        infos = [known_struct_info(binding.var)]
        if isinstance(binding, MatchCast):
            infos.append(binding.struct_info)
        if isinstance(binding.value, Call):
            infos += binding.value.sinfo_args
            infos += [
                arg for arg in binding.value.args if isinstance(arg, (ShapeExpr, PrimValue, Tuple))
            ]
        elif isinstance(binding.value, (ShapeExpr, PrimValue, Tuple)):
            infos.append(binding.value)
        for info in infos:
            found.update(dict.fromkeys(symbolic_vars(info)))
    found.update(dict.fromkeys(symbolic_vars(function.ret_struct_info)))
    return list(found)


@prints_lines(Function)
def _function(function: Function, printer: Printer) -> None:
    name = (
        printer.function_name
        or function.attrs.get("global_symbol")
        or printer.config.name
        or "main"
    )
    write_function(function, printer, name, outermost=True)


def write_function(
    function: Function, printer: Printer, name: str, outermost: bool = False
) -> None:
    """Print a function with its decorator; only an outermost one shows its linkage."""
    word = printer.word("R")
    options = []
    if outermost and "global_symbol" not in function.attrs:
        options.append("private=True")
    if not function.is_pure:
        options.append("pure=False")
    printer.line(
        f"@{word}.function" + (f"({', '.join(options)})" if options else ""), node=function
    )
    own_sizes = [var for var in symbolic_sizes(function) if printer.defined(var) is None]
    with printer.scope():
        head = _signature(function, printer, name, own_sizes)
        printer.line(*head, node=function)
        with printer.block():
            _body(function, printer, name, own_sizes)


def _signature(function: Function, printer: Printer, name: str, own_sizes: list[Any]) -> list[Any]:
    for var in own_sizes:
        printer.define(var, var.name)
    before = printer.state.get("relax.quoted", False)
    printer.state["relax.quoted"] = True
    params = []
    for param in function.params:
        info = printer.doc(known_struct_info(param))
        params.append(Doc(printer.define(param, param.name_hint), ": ", info, node=param))
    ret = printer.doc(function.ret_struct_info)
    printer.state["relax.quoted"] = before
    return ["def ", name, "(", joined(params), ") -> ", ret, ":"]


def _body(function: Function, printer: Printer, name: str, own_sizes: list[Any]) -> None:
    attrs = dict(function.attrs)
    if attrs.get("global_symbol") == name:
        del attrs["global_symbol"]
    if attrs:
        printer.line(f"{printer.word('R')}.func_attr(", printer.mapping(attrs), ")")
    for var in own_sizes:
        printer.line(Doc(printer.defined(var), node=var), f" = {printer.word('T')}.{var.dtype}()")
    if function.body is None:
        printer.line("...")
        return
    quoted_before = printer.state.get("relax.quoted", False)
    printer.state["relax.quoted"] = False
    for block in function.body.blocks:
        printer.write(block)
    printer.line("return ", printer.doc(function.body.body))
    printer.state["relax.quoted"] = quoted_before
