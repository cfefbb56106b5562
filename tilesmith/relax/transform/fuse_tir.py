"""FuseTIR: turns each sub-function marked ``Primitive`` into one PrimFunc.

The bodies of the PrimFuncs that it calls follow one another under one root block; the values
between them become buffers of that block, which a schedule may inline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Rewriter, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of
from tilesmith.relax.expr import (
    Call,
    Function,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.tir import Block, BlockRealize, Buffer, PrimFunc, Stmt, decl_buffer
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.stmt import stmt_seq
from tilesmith.tir.transform.dtypes.widen_indices import widen_mixed_indices

_CALL_TIR, _IN_PLACE = operators.call_tir.op, operators.call_tir_inplace.op


class _NotFusable(Exception):
    """Raised for a primitive function that cannot be fused and is left as it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Fusion:
    """Builds the PrimFunc of one primitive function."""

    def __init__(self, function: Function, mod: IRModule) -> None:
        self.function = function
        self.mod = mod
        self.buffers: dict[Var, list[Buffer]] = {}
        self.allocated: list[Buffer] = []
        self.statements: list[Stmt] = []
        self.block_names: dict[str, int] = {}
        self.params: list[Any] = []
        self.size_params: list[Any] = []
        self.overwritten: list[Buffer] = []
        self.places: list[int] = []
        """For each result the number of the parameter that it overwrites, or -1."""

    def build(self) -> PrimFunc:
        """Build the PrimFunc: parameters, results, then the extra sizes."""
        results = self._results()
        for param in self.function.params:
            self._parameter(param)
        for binding in bindings_of(self.function):
            self._binding(binding)
        outputs = [buffer for var in results for buffer in self.buffers[var]]
        if any(out in self.params and out not in self.overwritten for out in outputs):
            raise _NotFusable("it gives back a parameter")
        if any(one in self.params and one not in outputs for one in self.overwritten):
            raise _NotFusable("it overwrites a parameter that is no result")
        self.places = [self.params.index(out) if out in self.params else -1 for out in outputs]
        made = [out for out, place in zip(outputs, self.places) if place < 0]
        own = tuple([buffer for buffer in self.allocated if buffer not in made])
        root = Block([], [], [], "root", stmt_seq(*self.statements), None, own)
        body = BlockRealize((), const(True, "bool"), root)
        params = [*self.params, *made, *self.size_params]
        return widen_mixed_indices(PrimFunc(params, body, None, None, {"tir.noalias": True}))

    def _results(self) -> list[Var]:
        assert self.function.body is not None
        body: Any = self.function.body.body
        fields = body.fields if isinstance(body, Tuple) else (body,)
        if not all(isinstance(field, Var) for field in fields):
            raise _NotFusable("a result is not a variable")
        return list(fields)

    def _parameter(self, param: Var) -> None:
        info = known_struct_info(param)
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            self.size_params += list(info.values)
            return
        self.buffers[param] = []
        for number, field in enumerate(fields):
            if not isinstance(field, TensorStructInfo) or not isinstance(field.shape, ShapeExpr):
                raise _NotFusable(f"the parameter '{param.name_hint}' is a {info}")
            name = param.name_hint if field is info else f"{param.name_hint}_{number}"
            self.buffers[param].append(decl_buffer(field.shape.values, field.dtype, name))
        self.params += self.buffers[param]

    def _binding(self, binding: Any) -> None:
        call: Any = binding.value
        if isinstance(call, TupleGetItem) and call.tuple_value in self.buffers:
            self.buffers[binding.var] = [self.buffers[call.tuple_value][call.index]]
            return
        if not (isinstance(binding, VarBinding) and isinstance(call, Call)):
            raise _NotFusable(f"'{binding.var.name_hint}' is not a call")
        if call.op not in (_CALL_TIR, _IN_PLACE):
            raise _NotFusable(f"'{binding.var.name_hint}' is not a call of one PrimFunc")
        callee = self.mod.functions.get(call.args[0])
        if not isinstance(callee, PrimFunc):
            raise _NotFusable(f"'{call.args[0].name_hint}' is not a PrimFunc of the module")
        callee = renew_defs(callee)
        inputs = self._arguments(call.args[1])
        places = call.attrs.inplace_indices if call.op is _IN_PLACE else ()
        outputs = self._output_buffers(binding, callee, inputs, places)
        self.overwritten += [inputs[place] for place in places if place >= 0]
        made = [
            out for number, out in enumerate(outputs) if number >= len(places) or places[number] < 0
        ]
        self.buffers[binding.var] = outputs
        self.allocated += made
        sizes = list(call.args[2].values) if len(call.args) > 2 else []
        self._place(callee, [*inputs, *made], sizes)

    def _arguments(self, given: Any) -> list[Buffer]:
        if isinstance(given, Var) and given in self.buffers:  # a tuple
            return self.buffers[given]
        found: list[Buffer] = []
        for arg in given.fields if isinstance(given, Tuple) else (given,):
            if not isinstance(arg, Var) or len(self.buffers.get(arg, ())) != 1:
                raise _NotFusable(f"the argument {arg} is not one tensor")
            found += self.buffers[arg]
        return found

    def _output_buffers(
        self, binding: Any, callee: PrimFunc, inputs: list[Buffer], places: Sequence[int]
    ) -> list[Buffer]:
        """Return a buffer for each result: a new one, or that of the argument it overwrites."""
        info = known_struct_info(binding.var)
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        found: list[Buffer] = []
        last = len(inputs)
        for number, field in enumerate(fields):
            if number < len(places) and places[number] >= 0:
                found.append(inputs[places[number]])
                continue
            own = callee.buffer_map[callee.params[last]]
            last += 1
            found.append(decl_buffer(field.shape.values, field.dtype, own.name))
        return found

    def _place(self, callee: PrimFunc, buffers: list[Buffer], extra: list[Any]) -> None:
        handles = [param for param in callee.params if param in callee.buffer_map]
        scalars = [param for param in callee.params if param not in callee.buffer_map]
        sizes: dict[Any, Any] = dict(zip(scalars, extra))
        mapping: dict[Buffer, Buffer] = {}
        for handle, buffer in zip(handles, buffers):
            own = callee.buffer_map[handle]
            mapping[own] = buffer
            for size, value in zip(own.shape, buffer.shape):
                if hasattr(size, "name") and size not in sizes:
                    sizes[size] = value
        body = callee.body
        if isinstance(body, BlockRealize) and not body.block.iter_vars:
            root = substitute(body.block, sizes, buffers=mapping)
            self.allocated += root.alloc_buffers
            body = root.body
        else:
            body = substitute(body, sizes, buffers=mapping)
        self.statements.append(_UniqueBlockNames(self.block_names).visit(body))


class _UniqueBlockNames(Rewriter):
    """Gives blocks of one function unique names, so that a schedule can find them."""

    def __init__(self, used: dict[str, int]) -> None:
        self.used = used

    def visit_Block(self, node: Block) -> Block:
        node = node.map_children(self.visit)
        count = self.used.get(node.name_hint, 0)
        self.used[node.name_hint] = count + 1
        if not count:
            return node
        name = f"{node.name_hint}_{count}"
        self.used[name] = 1
        return node.with_fields(name_hint=name)


class _Callers(PyExprMutator):
    """Replaces calls of primitive functions by calls of their PrimFuncs."""

    def __init__(
        self,
        mod: IRModule,
        prim_funcs: dict[GlobalVar, GlobalVar],
        places: dict[GlobalVar, list[int]],
    ) -> None:
        super().__init__(mod)
        self.prim_funcs = prim_funcs
        self.places = places

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        target = self.prim_funcs.get(call.op) if isinstance(call, Call) else None
        if target is None:
            return call
        tensors: list[Any] = []
        sizes: list[Any] = []
        for arg in call.args:
            info = known_struct_info(arg)
            if isinstance(info, ShapeStructInfo):
                sizes += list(info.values)
            elif isinstance(info, TupleStructInfo):
                items = range(len(info.fields))
                tensors += (
                    arg.fields
                    if isinstance(arg, Tuple)
                    else [TupleGetItem(arg, number) for number in items]
                )
            else:
                tensors.append(arg)
        operands: list[Any] = [target, Tuple(tensors)]
        if sizes:
            operands.append(ShapeExpr(sizes))
        places = self.places[call.op]
        result = [known_struct_info(call)]
        if all(place < 0 for place in places):
            return Call(_CALL_TIR, operands, None, result, call.span)
        return Call(_IN_PLACE, operands, {"inplace_indices": places}, result, call.span)


@compiler_pass("FuseTIR")
def fuse_tir(mod: IRModule) -> IRModule:
    """Turns each sub-function marked ``Primitive`` into one PrimFunc."""
    made: dict[GlobalVar, PrimFunc] = {}
    places: dict[GlobalVar, list[int]] = {}
    for name, function in mod.functions.items():
        if isinstance(function, Function) and function.attrs.get("Primitive"):
            if function.body is None or "global_symbol" in function.attrs:
                continue
            try:
                fusion = _Fusion(function, mod)
                made[name] = fusion.build()
                places[name] = fusion.places
            except _NotFusable as refusal:
                with fallbacks_within(name.name_hint):
                    record_fallback("fusion", "", refusal.reason)
    if not made:
        return mod
    names = {name: GlobalVar(name.name_hint) for name in made}
    result = IRModule({}, None, mod.attrs, mod.global_infos)
    for name, function in mod.functions.items():
        result[names.get(name, name)] = made.get(name, function)
    mutator = _Callers(result, names, places)
    for name, function in list(result.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            result[name] = mutator.visit_expr(function)
    return result
