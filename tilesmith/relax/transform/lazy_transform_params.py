"""LazyTransformParams: weights are transformed one by one, without all of them in memory.

def main_transform_params(params):        def main_transform_params():
    w = params[1]                             w = R.call_packed("get_item", R.prim_value(1))
    t = R.permute_dims(w)           →         t = R.permute_dims(w)
    gv = (t,)                                 R.vm.kill_object(w)
    return gv                                 R.call_packed("set_item", R.prim_value(0), t)
                                              R.vm.kill_object(t)
                                              return R.tuple()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.analysis.live_ranges import live_ranges
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import (
    BindingBlock,
    Function,
    PrimValue,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator, PyExprVisitor
from tilesmith.relax.relations import erase_to_params
from tilesmith.relax.struct_info import ObjectStructInfo, StructInfo, TupleStructInfo
from tilesmith.relax.transform.kill_after_last_use import with_kills
from tilesmith.relax.transform.normal_form import to_non_dataflow
from tilesmith.support.errors import UnsupportedError

__all__ = [
    "ForwardCollector", "LazyInputMutator", "LazyOutputMutator", "LazyTransformParamsFuncCreator",
    "LivenessAnalysis",
]  # fmt: skip

_OBJECT = ObjectStructInfo()
_NOTHING = TupleStructInfo(())


class ForwardCollector(PyExprVisitor):
    """Finds what a function takes from its tuple of weights, and what its tuple of results holds.

    ``tuple_var`` is the result; ``out_tuple_map`` then says which variables are which of its
    fields, ``var_tuple_get_item`` are variables bound to fields of ``input_params``.
    """

    def __init__(self, tuple_var: Var, input_params: Var | None) -> None:
        self.out_tuple_map: dict[Any, list[int]] = {}
        self.var_tuple_get_item: list[Var] = []
        self.is_tuple_get_item_input = False
        self.tuple_var = tuple_var
        self.input_params = input_params

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """Note that a field of the weights is read."""
        self.is_tuple_get_item_input = op.tuple_value is self.input_params
        super().visit_tuple_getitem_(op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Note what a variable is: a weight, or the tuple of results."""
        if binding.var is self.tuple_var and isinstance(binding.value, Tuple):
            for number, field in enumerate(binding.value.fields):
                self.out_tuple_map.setdefault(field, []).append(number)
        self.is_tuple_get_item_input = False
        super().visit_var_binding_(binding)
        if self.is_tuple_get_item_input:
            self.var_tuple_get_item.append(binding.var)


class LivenessAnalysis(PyExprVisitor):
    """Finds after which binding variables are used no more: ``var_liveness_end`` has the variable
    of this binding → those variables. What ``out_tuple_var`` holds is not counted as a use there.
    """

    def __init__(self, out_tuple_var: Var) -> None:
        self.out_tuple_var = out_tuple_var
        self.var_liveness_end: dict[Var, list[Var]] = {}
        self._seen: set[Var] = set()
        self._ending: list[Var] = []

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visit the bindings from the last to the first."""
        for binding in reversed(block.bindings):
            self.visit_binding(binding)

    def visit_var_(self, op: Var) -> None:
        """Note the use of a variable that is not used later."""
        if op is not self.out_tuple_var and op not in self._seen:
            self._seen.add(op)
            self._ending.append(op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Note which variables the value is the last to use."""
        if binding.var is self.out_tuple_var:
            return
        self._ending = []
        self.visit_expr(binding.value)
        if binding.var not in self._seen:  # a result, or a value that nothing needs
            self._seen.add(binding.var)
            self._ending.append(binding.var)
        self.var_liveness_end[binding.var] = self._ending


class LazyInputMutator(PyExprMutator):
    """Gets weights by a function where they are first used. They are the parameters after the first
    ``num_input`` ones, or the fields of one that is a tuple.
    """

    def __init__(
        self, func_creator: LazyTransformParamsFuncCreator, mod: IRModule | None = None
    ) -> None:
        super().__init__(mod)
        self.func_creator = func_creator
        self.tuple_param: Var | None = None
        self.numbers: dict[Var, int] = {}
        self.loaded: dict[int, Var] = {}

    def visit_function_(self, op: Function) -> Any:
        """Remove the weights from the parameters of a function."""
        count = int(op.attrs.get("num_input", 0))
        weights = op.params[count:]
        whole = weights[0] if len(weights) == 1 else None
        if whole is not None and isinstance(known_struct_info(whole), TupleStructInfo):
            self.tuple_param = whole
        else:
            self.numbers = {param: number for number, param in enumerate(weights)}
        params = [*op.params[:count], *self.func_creator.extra_get_item_params]
        body = self.visit_with_new_scope(op.body, params)
        ret = erase_to_params(op.ret_struct_info, params)
        return Function(params, body, ret, False, op.attrs, op.span)

    def visit_var_(self, var: Var) -> Any:
        """Get a weight."""
        if var in self.numbers:
            return self._load(self.numbers[var], known_struct_info(var), var.name_hint)
        if var is self.tuple_param:
            raise UnsupportedError(
                "LazyTransformParams: the tuple of weights is used as a whole",
                notes=("take the fields that are needed: params[0]",),
            )
        return super().visit_var_(var)

    def visit_tuple_getitem_(self, node: TupleGetItem) -> Any:
        """Get a field of the tuple of weights."""
        if node.tuple_value is self.tuple_param and self.tuple_param is not None:
            return self._load(node.index, known_struct_info(node), "")
        return super().visit_tuple_getitem_(node)

    def _load(self, number: int, info: StructInfo, name: str) -> Var:
        if number not in self.loaded:
            creator = self.func_creator
            call = operators.call_packed(
                creator.fget_item,
                *creator.extra_get_item_params,
                PrimValue(number),
                sinfo_args=_OBJECT,
            )
            untyped = self.builder_.emit(call, f"{name}_untyped" if name else "")
            self.loaded[number] = self.builder_.match_cast(untyped, info, name)
        return self.loaded[number]


class LazyOutputMutator(PyExprMutator):
    """Hands fields of the result over as soon as they are known."""

    def __init__(
        self, func_creator: LazyTransformParamsFuncCreator, mod: IRModule | None = None
    ) -> None:
        super().__init__(mod)
        self.func_creator = func_creator
        self.result: Any = None
        self.fields: dict[Any, list[int]] = {}

    def visit_function_(self, op: Any) -> Any:
        """Let a function return nothing."""
        self.result = op.body.body
        if isinstance(self.result, Var):
            collector = ForwardCollector(self.result, None)
            collector.visit_expr(op)
            self.fields = collector.out_tuple_map or {self.result: [0]}
        else:
            parts = self.result.fields if isinstance(self.result, Tuple) else [self.result]
            for number, field in enumerate(parts):
                self.fields.setdefault(field, []).append(number)
        count = int(op.attrs.get("num_input", 0))
        extra = self.func_creator.extra_set_item_params
        params = [*op.params[:count], *extra, *op.params[count:]]
        self.builder_.begin_scope(params)
        self.builder_.begin_binding_block()
        for field, numbers in self.fields.items():
            if not isinstance(field, Var) or field in op.params:
                self._store(numbers, field)
        first = self.builder_.end_block()
        body = self.visit_expr(op.body)
        self.builder_.end_scope()
        blocks = [first, *body.blocks] if first.bindings else list(body.blocks)
        body = body.with_fields(blocks=tuple(blocks), body=Tuple([]))
        return Function(params, body, _NOTHING, False, op.attrs, op.span)

    def visit_var_(self, var: Var) -> Any:
        """Return nothing for the result."""
        return Tuple([]) if var is self.result else super().visit_var_(var)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Store a value that belongs to the result."""
        if binding.var is self.result and binding.var not in self.fields:
            return  # the tuple of results
        super().visit_var_binding_(binding)
        self._store(self.fields.get(binding.var, ()), self.get_var_remap(binding.var))

    def visit_match_cast_(self, binding: Any) -> None:
        """Store a value that belongs to the result."""
        super().visit_match_cast_(binding)
        self._store(self.fields.get(binding.var, ()), self.get_var_remap(binding.var))

    def _store(self, numbers: Iterable[int], value: Any) -> None:
        creator = self.func_creator
        for number in numbers:
            call = operators.call_packed(
                creator.fset_item,
                *creator.extra_set_item_params,
                PrimValue(number),
                value,
                sinfo_args=_OBJECT,
            )
            self.builder_.emit(call, "_")


class LazyTransformParamsFuncCreator:
    """Makes the lazy form of a function that transforms weights."""

    def __init__(
        self,
        fget_item: str | None,
        fset_item: str | None,
        extra_get_item_params: Iterable[Var],
        extra_set_item_params: Iterable[Var],
        mod: IRModule | None = None,
    ) -> None:
        self.mod = mod
        self.fget_item = fget_item
        self.fset_item = fset_item
        self.extra_get_item_params = list(extra_get_item_params)
        self.extra_set_item_params = list(extra_set_item_params)

    def transform(self, func: Any) -> Any:
        """Return a function that gets weights and hands over results one by one."""
        func = to_non_dataflow(func, self.mod or IRModule({}))
        if self.fget_item is not None:
            func = LazyInputMutator(self, self.mod).visit_expr(func)
        if self.fset_item is not None:
            func = LazyOutputMutator(self, self.mod).visit_expr(func)
        # A function that was handed a value has its own hold on it.
        graph = live_ranges(func)
        kept = set(graph.ranges.roots(used_vars(func.body.body)))
        unused = [b.var for b in graph.bindings if known_struct_info(b.var) == _OBJECT]
        kept |= {var for var in unused if var.name_hint.startswith("_")}
        func = with_kills(func, graph, kept)
        func = func.with_attr("relax.force_pure", True).with_fields(is_pure=False)
        return copy_with_new_vars(func)


@compiler_pass("LazyTransformParams")
def lazy_transform_params(
    mod: IRModule,
    fget_item: str | None = "get_item",
    fset_item: str | None = "set_item",
    extra_get_item_params: Iterable[Var] | None = None,
    extra_set_item_params: Iterable[Var] | None = None,
) -> IRModule:
    """Lets functions whose names end in ``transform_params`` get weights by the registered function
    ``fget_item(*extra_get_item_params, index)`` and hand over results by ``fset_item(
    *extra_set_item_params, index, value)``, one by one.

    The extra parameters become parameters of the function. With None in place of one of the names,
    weights are given, or results returned, as before.
    """
    creator = LazyTransformParamsFuncCreator(
        fget_item, fset_item, extra_get_item_params or (), extra_set_item_params or (), mod
    )
    for name, function in list(mod.functions.items()):
        is_wanted = name.name_hint.endswith("transform_params")
        if is_wanted and isinstance(function, Function) and function.body is not None:
            mod[name] = made = creator.transform(function)
            name.describe(made.struct_info)
    return mod
