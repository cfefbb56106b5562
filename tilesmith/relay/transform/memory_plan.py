"""MemoryPlan, LiftConstants: fewer allocations in programs that `memory_alloc` has written.

The storages of one scope become one, in which tensors lie at offsets; those that are not alive at
the same time share bytes (`support.memory_planner`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import FunctionLevelPass, PassInfo
from tilesmith.relay.expr import Call, Constant, If, Let, Tuple, Var, const
from tilesmith.relay.expr_functor import ExprMutator
from tilesmith.relay.function import Function
from tilesmith.relay.op.memory.memory import alloc_storage
from tilesmith.relay.transform.fold_constant import FoldConstantExpr
from tilesmith.relay.transform.let_chains import Binding, chain_of, mk_let, variables_in
from tilesmith.relay.transform.memory_alloc import is_memory_call
from tilesmith.relay.walks import is_closed
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.memory_planner import Allocation, plan_offsets
from tilesmith.target.virtual_device import VirtualDevice

__all__ = [
    "LiftConst", "LiftConstants", "MemoryPlan", "Region", "StorageCoalesce", "const_eval",
    "is_primitive", "iterative_let", "mk_let",
]  # fmt: skip


def is_primitive(call: Any) -> bool:
    """Return whether an expression is a call of a function that is one kernel."""
    is_call = isinstance(call, Call) and isinstance(call.op, Function)
    return is_call and bool(call.op.attrs.get("Primitive"))


def iterative_let(
    let: Any, each_binding: Callable[[Any, Any], Any], kont: Callable[[Any, Any], Any]
) -> Any:
    """Go along lets: ``each_binding(variable, value)`` → a pair to bind, ``kont(pairs, body)`` →
    the result.
    """
    bindings, body = chain_of(let)
    return kont([each_binding(variable, value) for variable, value in bindings], body)


def const_eval(mod: IRModule, exp: Any) -> Any:
    """Return the value of an expression that depends on constants alone, as a tensor."""
    found = FoldConstantExpr(exp, mod)
    if not isinstance(found, Constant):
        raise UnsupportedError("the expression depends on more than constants")
    return found.data


class Region:
    """One storage in the place of several."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.size = 0
        self.alignment = 1
        self.dtype = "uint8"
        self.device: VirtualDevice | None = None
        self.offsets: dict[Var, int] = {}
        self.sizes: dict[Var, int] = {}

    @staticmethod
    def empty(region_no: int) -> Region:
        """Return a region of nothing."""
        return Region(Var(f"region{region_no}", dialect="relay"))

    def grow(
        self, old_storage: Var, size: Any, alignment: Any, device: VirtualDevice, dtype: Any
    ) -> None:
        """Add the bytes of a storage behind those that are there."""
        if self.device is not None and self.device.name != device.name:
            raise TypeMismatchError(
                f"a region is on one device: {self.device.name}, not also {device.name}"
            )
        self.device, self.dtype = device, str(dtype)
        bytes_, step = [int(one.data.numpy()) if isinstance(one, Constant) else int(one)
                        for one in (size, alignment)]  # fmt: skip
        self.alignment = max(self.alignment, step)
        self.offsets[old_storage] = -(-self.size // step) * step
        self.sizes[old_storage] = bytes_
        self.size = self.offsets[old_storage] + bytes_

    def plan(self, live: dict[Var, tuple[int, int]]) -> None:
        """Let storages that are not alive in the same steps share bytes."""
        storages = list(self.sizes)
        wanted = [Allocation(self.sizes[one], (live[one],)) for one in storages]
        found = plan_offsets(wanted, self.alignment)
        self.offsets = dict(zip(storages, found.offsets))
        self.size = found.total

    def offset_for(self, alloc: Var) -> Any:
        """Return the place of a storage in the region, None for another one."""
        return self.offsets.get(alloc)

    def to_expr(self, body: Any) -> Any:
        """Return an expression that has the region."""
        made = alloc_storage(self.size, self.alignment, self.device, self.dtype)
        return Let(self.var, made, body)


class StorageCoalesce(ExprMutator):
    """Lets the storages of each scope be one for each device."""

    def __init__(self) -> None:
        super().__init__()
        self.regions: list[dict[str, Region]] = []
        self.made = 0

    def enter_scope(self) -> None:
        """Begin a scope, whose storages are its own."""
        self.regions.append({})

    def exit_scope(self, body: Any) -> Any:
        """End a scope; return it with its regions."""
        for region in reversed(self.regions.pop().values()):
            if region.offsets:
                body = region.to_expr(body)
        return body

    def current_region(self, device: str) -> Region:
        """Return the region of a device in this scope."""
        scope = self.regions[-1]
        if device not in scope:
            scope[device] = Region.empty(self.made)
            self.made += 1
        return scope[device]

    def new_region_and_offset(self, old_storage: Var) -> tuple[Region, int] | None:
        """Return the region in which a storage lies now, and where; None for one that is kept."""
        for scope in reversed(self.regions):
            for region in scope.values():
                offset = region.offset_for(old_storage)
                if offset is not None:
                    return region, offset
        return None

    def visit_function(self, fn: Any) -> Any:
        """Plan a function that is no kernel."""
        return fn if is_closed(fn) else fn.with_fields(body=self.scope(fn.body))

    def visit_if(self, if_: Any) -> Any:
        """Plan each branch by itself."""
        return If(if_.cond, self.scope(if_.true_branch), self.scope(if_.false_branch), if_.span)

    def mk_let(self, bindings: list[Binding], body: Any) -> Any:
        """Return lets."""
        return mk_let(bindings, body)

    def visit_let(self, let: Any) -> Any:
        """Plan a sequence of lets."""
        return self.scope(let)

    def scope(self, expr: Any) -> Any:
        """Plan a scope."""
        bindings, result = chain_of(expr)
        self.enter_scope()
        for variable, value in bindings:
            if is_memory_call(value, "memory.alloc_storage"):
                self.process_alloc_storage(variable, value)
        live = _live(bindings, result)
        for region in self.regions[-1].values():
            region.plan({one: live[one] for one in region.sizes})
        made: list[Binding] = []
        for variable, value in bindings:
            if is_memory_call(value, "memory.alloc_storage", "memory.kill"):
                gone = variable if value.op.name.endswith("storage") else value.args[0]
                if self.new_region_and_offset(gone) is not None:
                    continue
            if is_memory_call(value, "memory.alloc_tensor"):
                value = self.process_alloc_tensor(value)
            elif isinstance(value, (If, Function)):
                value = self.visit(value)
            made.append((variable, value))
        last = self.visit(result) if isinstance(result, (If, Function)) else result
        return self.exit_scope(self.mk_let(made, last))

    def process_alloc_storage(self, variable: Var, value: Any) -> None:
        """Add a storage of a known size to the region of its device."""
        size, alignment = value.args
        if isinstance(size, Constant) and isinstance(alignment, Constant):
            device = value.attrs.virtual_device
            region = self.current_region(device.name)
            region.grow(variable, size, alignment, device, value.attrs.dtype)

    def process_alloc_tensor(self, value: Any) -> Any:
        """Return the tensor at its place in the region."""
        storage, offset, shape = value.args
        found = self.new_region_and_offset(storage)
        if found is None or not isinstance(offset, Constant):
            return value
        region, place = found
        moved = const(place + int(offset.data.numpy()), "int64")
        return value.with_fields(args=[region.var, moved, shape])


def _live(bindings: list[Binding], result: Any) -> dict[Var, tuple[int, int]]:
    """Return the first and the last step in which each storage is used: from the first write on."""
    of: dict[Var, set[Var]] = {}  # variable → the storages that it may lie in
    live: dict[Var, tuple[int, int]] = {}
    for place, (variable, value) in enumerate(bindings):
        if is_memory_call(value, "memory.alloc_storage"):
            of[variable] = {variable}
            continue
        if is_memory_call(value, "memory.kill"):
            continue
        found = {storage for one in variables_in(value) for storage in of.get(one, ())}
        if not is_memory_call(value, "vm.invoke_tvm_op"):
            of[variable] = found
        if not is_memory_call(value, "memory.alloc_tensor") and not isinstance(value, Tuple):
            for storage in found:
                live[storage] = (live.get(storage, (place, place))[0], place)
    end = len(bindings)
    for one in variables_in(result):
        for storage in of.get(one, ()):
            live[storage] = (live.get(storage, (end, end))[0], end)
    unused = [one for one, its in of.items() if one in its]
    return {**dict.fromkeys(unused, (end, end)), **live}


class MemoryPlan(FunctionLevelPass):
    """Lets the storages of each scope be one, in which those share bytes that are not alive at the
    same time.
    """

    function_class = Function

    def __init__(self) -> None:
        super().__init__(self.transform_function, PassInfo(0, "MemoryPlan", ["InferType"]))

    def transform_function(self, func: Any, mod: IRModule, ctx: Any) -> Any:
        """Plan one function."""
        return StorageCoalesce().visit_function(func)


class LiftConst(ExprMutator):
    """Binds the tensors that are constants of a function to variables at its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.constants: list[Binding] = []
        self.is_inside = False

    def visit_constant(self, const: Any) -> Any:
        """Return the variable of a constant; numbers stay."""
        if not const.data.shape:
            return const
        variable = Var(f"const{len(self.constants)}", const.struct_info, dialect="relay")
        self.constants.append((variable, const))
        return variable

    def visit_function(self, fn: Any) -> Any:
        """Lift the constants of a function; kernels and functions inside keep theirs."""
        if is_closed(fn) or self.is_inside:
            return fn
        self.is_inside = True
        body = self.visit(fn.body)
        self.is_inside = False
        return fn.with_fields(body=mk_let(self.constants, body))

    def visit_let(self, let: Any) -> Any:
        """Lift the constants of a sequence of lets."""
        bindings, body = chain_of(let)
        made = [(variable, self.visit(value)) for variable, value in bindings]
        return mk_let(made, self.visit(body))


class LiftConstants(FunctionLevelPass):
    """Binds the tensors that are constants of a function to variables at its beginning."""

    function_class = Function

    def __init__(self) -> None:
        super().__init__(self.transform_function, PassInfo(0, "LiftConstants", ["InferType"]))

    def transform_function(self, func: Any, mod: IRModule, ctx: Any) -> Any:
        """Lift the constants of one function."""
        return LiftConst().visit_function(func)
