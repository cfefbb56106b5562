"""Turns planned allocations into offsets in pools.

    def main(a: T.handle):                        def main(a: T.handle, sram: T.Ptr("uint8")):
        t = T.allocate([64], "int8", ...)             t = T.handle_add_byte_offset(sram, 16)
        T.call_extern("int32", "op", a, t)            T.call_extern("int32", "op", a, t, sram)

Each function receives the pools that it or a function that it calls uses, by further parameters at
the end, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.ir import (
    AllocatedPoolInfo,
    Call,
    IRModule,
    PointerType,
    PoolInfo,
    PrimType,
    Var,
    const,
)
from tilesmith.ir.call_intrinsics import handle_add_byte_offset
from tilesmith.ir.pass_context import PassContext, PassInfo
from tilesmith.ir.queries import nodes
from tilesmith.ir.transform import ModulePass, Pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnknownNameError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, LetStmt, Stmt
from tilesmith.tir.usmp.analysis.analysis import bytes_of, extract_buffer_info
from tilesmith.tir.usmp.calls import Functions
from tilesmith.tir.usmp.utils import PoolAllocation, plan_pool_allocations

__all__ = ["UnifiedStaticMemoryPlanner", "convert_pool_allocations_to_offsets"]

MAIN_NAMES = ("__tvm_main__", "main")


def convert_pool_allocations_to_offsets(
    pool_allocations: Mapping[Allocate, PoolAllocation], emit_tvmscript_printable: bool = False
) -> Pass:
    """Return the pass that puts allocations at their places in the pools.

    The attribute ``pool_args`` of a function says how much of each pool it needs, and where among
    its parameters the pool is; ``emit_tvmscript_printable`` leaves it out, because scripts have no
    words for it.
    """

    def convert(module: IRModule, _context: PassContext) -> IRModule:
        return _Conversion(module, pool_allocations, not emit_tvmscript_printable).module()

    return ModulePass(convert, PassInfo(0, "tir.usmp.ConvertPoolAllocationsToOffsets"))


def UnifiedStaticMemoryPlanner() -> Pass:
    """Return the pass that plans the memory of the main function and of all that it calls."""

    def plan(module: IRModule, _context: PassContext) -> IRModule:
        names = {variable.name_hint: function for variable, function in module.functions.items()}
        main = next((names[name] for name in MAIN_NAMES if name in names), None)
        if not isinstance(main, PrimFunc):
            raise UnknownNameError(
                "the memory of a module is planned from its main function, and it has none",
                notes=("call it main, or use tir.usmp.analysis.extract_buffer_info",),
            )
        places = plan_pool_allocations(extract_buffer_info(main, module))
        return convert_pool_allocations_to_offsets(places)(module)

    return ModulePass(plan, PassInfo(0, "tir.UnifiedStaticMemoryPlanner"))


class _Conversion:
    """Converts the functions of a module."""

    def __init__(
        self,
        module: IRModule,
        places: Mapping[Allocate, PoolAllocation],
        has_attributes: bool,
    ) -> None:
        self.original = module
        self.places = places
        self.has_attributes = has_attributes
        self.functions = Functions(module)
        self.sizes: dict[PrimFunc, dict[str, tuple[PoolInfo, int]]] = {}

    def module(self) -> IRModule:
        changed = {
            variable: self.converted(function)
            for variable, function in self.original.functions.items()
            if isinstance(function, PrimFunc) and self.used(function)
        }
        copy = self.original.shallow_copy()
        copy.update(changed)
        return copy

    def used(self, function: PrimFunc) -> dict[str, tuple[PoolInfo, int]]:
        """Return the pools that a function and those that it calls use, and the bytes needed."""
        if function in self.sizes:
            return self.sizes[function]
        found: dict[str, tuple[PoolInfo, int]] = {}

        def need(pool: PoolInfo, size: int) -> None:
            _, before = found.get(pool.pool_name, (pool, 0))
            found[pool.pool_name] = (pool, max(before, size))

        for allocation in nodes(function.body, Allocate):
            place = self.places.get(allocation)
            if place is not None:
                need(place.pool_info, place.byte_offset + bytes_of(allocation))
        for call in nodes(function.body, Call):
            callee = self.functions.callee(call)
            if callee is not None:
                for pool, size in self.used(callee).values():
                    need(pool, size)
        self.sizes[function] = dict(sorted(found.items()))
        return self.sizes[function]

    def converted(self, function: PrimFunc) -> PrimFunc:
        pointers = {
            name: Var(name, PointerType(PrimType("uint8"), "global"))
            for name in self.used(function)
        }
        body = _Offsets(self, pointers).visit(function.body)
        made = function.with_fields(params=(*function.params, *pointers.values()), body=body)
        if not self.has_attributes:
            return made
        first = len(function.params)
        needs = [
            AllocatedPoolInfo(pool, size, first + number)
            for number, (pool, size) in enumerate(self.used(function).values())
        ]
        return made.with_attr("pool_args", needs)


class _Offsets(Rewriter):
    """Rewrites the allocations and calls of one function."""

    def __init__(self, conversion: _Conversion, pointers: Mapping[str, Var]) -> None:
        self.conversion = conversion
        self.pointers = pointers

    def visit_Allocate(self, node: Allocate) -> Stmt:
        place = self.conversion.places.get(node)
        if place is None:
            return self.children(node)
        pool = self.pointers[place.pool_info.pool_name]
        address = handle_add_byte_offset(pool, const(place.byte_offset, "int64"))
        return LetStmt(node.buffer_var, address, self.visit(node.body), node.span)

    def visit_Call(self, node: Call) -> Call:
        made: Call = self.children(node)
        callee = self.conversion.functions.callee(node)
        if callee is None:
            return made
        given = [self.pointers[name] for name in self.conversion.used(callee)]
        return made.with_fields(args=(*made.args, *given)) if given else made
