"""AlterOpImpl: other kernels for operators, with tensors in the layouts that these take.

lv = R.call_tir(cls.add, (x, y), …)       x1 = R.layout_transform(x, index_map=…)
                                          y1 = R.layout_transform(y, index_map=…)
                                    →     r = R.call_tir(cls.relax_add_replacement, (x1, y1), …)
                                          lv = R.layout_transform(r, index_map=…)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Function, Tuple, TupleGetItem, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import prove_equal_shapes, sizes_of
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownNameError
from tilesmith.tir import IndexMap, PrimFunc

_CALL_TIR = operators.call_tir.op
OPERATOR = "operator_name"
"""The attribute of a PrimFunc that says which operator it computes."""


def _index_map(given: Any, rank: int) -> IndexMap | None:
    if given is None or isinstance(given, IndexMap):
        return given
    return IndexMap.from_func(given, rank)


class _Replacement:
    """What is done to the calls of one operator."""

    def __init__(
        self, name: str, func: PrimFunc, transforms: Any, separators: Any, input_separators: Any
    ) -> None:
        if not isinstance(func, PrimFunc):
            raise TypeMismatchError(
                f"AlterOpImpl: the kernel of '{name}' is a PrimFunc, got {type(func).__name__}"
            )
        self.name = name
        self.func = func
        buffers = func.buffers
        count = len(buffers)
        self.transforms: Sequence[Any] = list(transforms or [None] * count)
        self.separators: Sequence[Any] = list(separators or [None] * count)
        self.input_separators: Sequence[Any] = list(input_separators or [None] * count)
        for what, found in (
            ("transformations", self.transforms),
            ("axis separators", self.separators),
            ("input axis separators", self.input_separators),
        ):
            if len(found) != count:
                raise ShapeError(
                    f"AlterOpImpl: {len(found)} {what} for '{name}', whose kernel has {count} "
                    "buffers",
                    notes=("give one for each, inputs first, None for one that stays",),
                )

    def symbol(self) -> str:
        """Return the name of the kernel in the module."""
        return f"{self.name.replace('.', '_')}_replacement"


class _Alter(PyExprMutator):
    def __init__(self, mod: IRModule, replacements: Mapping[str, _Replacement]) -> None:
        super().__init__(mod)
        self.mod = mod
        self.replacements = replacements
        self.kernels: dict[str, GlobalVar] = {}

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _CALL_TIR:
            return call
        given_kernel: Any = call.args[0]
        kernel = self.mod.functions.get(given_kernel)
        name = None if kernel is None else kernel.attrs.get(OPERATOR)
        chosen = self.replacements.get(str(name)) if name is not None else None
        if chosen is None or not isinstance(call.args[1], Tuple):
            return call
        info = call.sinfo_args[0]
        results = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        inputs = list(call.args[1].fields)
        if len(inputs) + len(results) != len(chosen.transforms):
            raise ShapeError(
                f"AlterOpImpl: a call of '{chosen.name}' has {len(inputs)} arguments and "
                f"{len(results)} results, its new kernel {len(chosen.transforms)} buffers"
            )
        arguments = [self._input(chosen, place, one) for place, one in enumerate(inputs)]
        first = len(inputs)
        infos = [self._altered(chosen, first + k, one) for k, one in enumerate(results)]
        if chosen.name not in self.kernels:
            made = chosen.func.with_attr(OPERATOR, chosen.name)
            self.kernels[chosen.name] = self.builder_.add_func(made, chosen.symbol())
        operands = [self.kernels[chosen.name], Tuple(arguments), *call.args[2:]]
        is_tuple = isinstance(info, TupleStructInfo)
        given = TupleStructInfo(tuple(infos)) if is_tuple else infos[0]
        value: Any = Call(_CALL_TIR, operands, None, given, call.span)
        if not is_tuple:
            return self._result(chosen, first, value, results[0])
        value = self.builder_.emit(value)
        parts = [self.builder_.emit(TupleGetItem(value, k)) for k in range(len(results))]
        return Tuple([self._result(chosen, first + k, p, results[k]) for k, p in enumerate(parts)])

    def _map(self, chosen: _Replacement, place: int, info: StructInfo) -> IndexMap | None:
        rank = info.ndim if isinstance(info, TensorStructInfo) else -1
        return _index_map(chosen.transforms[place], rank)

    def _input(self, chosen: _Replacement, place: int, arg: Any) -> Any:
        index_map = self._map(chosen, place, known_struct_info(arg))
        if index_map is None:
            return arg
        call = operators.layout_transform(
            arg, index_map, None, chosen.separators[place], chosen.input_separators[place]
        )
        return self.builder_.emit(call)

    def _altered(self, chosen: _Replacement, place: int, info: StructInfo) -> StructInfo:
        index_map = self._map(chosen, place, info)
        if index_map is None or not isinstance(info, TensorStructInfo):
            return info
        sizes = sizes_of(info)
        if sizes is None:
            raise ShapeError(f"AlterOpImpl: the sizes of a result of '{chosen.name}' are not known")
        return TensorStructInfo(index_map.map_shape(list(sizes)), info.dtype, info.vdevice)

    def _result(self, chosen: _Replacement, place: int, value: Any, info: StructInfo) -> Any:
        """Return a result as it was before; what the transformation has added is removed."""
        index_map = self._map(chosen, place, info)
        if index_map is None or not isinstance(info, TensorStructInfo):
            return value
        sizes = list(sizes_of(info) or ())
        inverse, _ = index_map.non_surjective_inverse(sizes)
        back = operators.layout_transform(
            self.builder_.normalize_argument(value),
            inverse,
            None,
            chosen.input_separators[place],
            chosen.separators[place],
        )
        found = sizes_of(back.struct_info)
        if found is not None and prove_equal_shapes(found, sizes):
            return back

        def remove_pad(x: Any) -> Any:
            return te.compute(sizes, lambda *index: x(*index), name="remove_pad")

        return self.builder_.call_te(
            remove_pad, self.builder_.emit(back), primfunc_name_hint="remove_pad"
        )


@compiler_pass("AlterOpImpl")
def alter_op_impl(
    mod: IRModule,
    op_impl_map: Mapping[str, PrimFunc],
    op_buffer_transforms: Mapping[str, Sequence[Any]],
    op_buffer_axis_separators: Mapping[str, Sequence[Any]] | None = None,
    op_buffer_input_axis_separators: Mapping[str, Sequence[Any]] | None = None,
) -> IRModule:
    """Replaces the kernels of operators by others, and transforms the tensors of their calls.

    Names are those of the attribute ``operator_name`` of PrimFuncs. For each buffer of a kernel,
    inputs first, there is an index map (or a function of the indices), or None; the separators are
    those of ``layout_transform``. What a transformation adds at the end of an axis is not
    initialised, and removed from results.
    """
    for name in op_buffer_transforms:
        if name not in op_impl_map:
            raise UnknownNameError(f"AlterOpImpl: transformations but no kernel for '{name}'")
    separators, others = op_buffer_axis_separators or {}, op_buffer_input_axis_separators or {}
    replacements = {
        name: _Replacement(
            name, func, op_buffer_transforms.get(name), separators.get(name), others.get(name)
        )
        for name, func in op_impl_map.items()
    }
    mutator = _Alter(mod, replacements)
    for variable, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(variable, updated)
    return mutator.builder_.get()
