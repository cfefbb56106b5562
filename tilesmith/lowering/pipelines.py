"""The passes from tensor programs to what a back end takes, in order.

Each list is read from top to bottom. ``PassContext`` can disable passes by name; the option
``tir.add_lower_pass`` adds passes after a phase (0 to 3).
"""

from __future__ import annotations

from tilesmith.ir.transform import Pass, PassContext
from tilesmith.target import Target
from tilesmith.tir import transform as passes

__all__ = ["PHASES", "host_passes", "lower_passes"]


def _when(option: str, step: Pass) -> list[Pass]:
    """A pass that runs only where an option of the context asks for it."""
    return [step] if PassContext.current().get_config(option) else []


def _blocks() -> list[Pass]:
    """Phase 0: blocks with iterators and reductions → opaque blocks."""
    return [
        passes.InjectPrefetch(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),  # while blocks tell what reduces
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
        passes.LowerMatchBuffer(),
    ]


def _flat_loops() -> list[Pass]:
    """Phase 1: opaque blocks → loops over flat buffers, with 32-bit indices where they fit."""
    return [
        passes.LowerOpaqueBlock(),
        passes.RewriteUnsafeSelect(),  # while each dimension can be compared with its index
        *_when("tir.instrument_bound_checkers", passes.InstrumentBoundCheckers()),
        passes.FlattenBuffer(),
        passes.NarrowDataType(32),  # before vectors are made: fewer bits, more lanes
        passes.Simplify(),
    ]


def _vectors() -> list[Pass]:
    """Phase 2: loops as marked → vectors, copies, shared memory."""
    return [
        passes.RemoveStoreUndef(),
        passes.RemoveAssume(),
        passes.LoopPartition(),
        passes.PeelVectorTails(),
        passes.VectorizeLoop(),
        passes.StorageRewrite(),
        passes.UnrollLoop(),
    ]


def _cleanup() -> list[Pass]:
    """Phase 3: what the passes before have left over."""
    return [
        passes.Simplify(),
        passes.RemoveNoOp(),
        passes.HoistIfThenElse(),
    ]


PHASES = (_blocks, _flat_loops, _vectors, _cleanup)
"""The phases of lowering in order: functions that make their lists of passes."""


def lower_passes(added: list[tuple[int, Pass]] | None = None) -> list[Pass]:
    """All passes of lowering; ``added`` are pairs of a phase and a pass that runs at its end."""
    found: list[Pass] = []
    for number, phase in enumerate(PHASES):
        found += phase()
        found += [extra for wanted, extra in added or () if wanted == number]
    return found


def host_passes(target: Target, disable_assert: bool = False) -> list[Pass]:
    """From lowered functions to what a back end for CPUs takes."""
    return [
        passes.BindTarget(target),
        passes.AnnotateEntryFunc(),
        *([passes.SkipAssert()] if disable_assert else []),  # the user's, not those of the wrappers
        passes.LowerIntrin(),
        passes.MakePackedAPI(),
    ]
