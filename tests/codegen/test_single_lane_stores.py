"""Masked stores of one fixed lane, which LLVM 22 writes too wide, become plain stores."""

import ctypes

import numpy as np
import pytest

from tilesmith.codegen.llvm.machine_code import compile_text, parse, without_single_lane_stores
from tilesmith.runtime.library import Library
from tilesmith.target import Target
from tilesmith.target.features import llvm_machine

TEXT = """
define void @f(ptr %p, ptr %q) {{
  %x = load <8 x i32>, ptr %q, align 4
  %t = trunc nuw <8 x i32> %x to <8 x i16>
  call void @llvm.masked.store.v8i16.p0(<8 x i16> %t, ptr align 2 %p, <8 x i1> <{mask}>)
  ret void
}}
declare void @llvm.masked.store.v8i16.p0(<8 x i16>, ptr, <8 x i1>)
"""


def text(*lanes):
    mask = ", ".join(f"i1 {'true' if lane in lanes else 'false'}" for lane in range(8))
    return TEXT.format(mask=mask)


@pytest.mark.parametrize("lanes", [(0,), (3,), (7,), (0, 5), (0, 1, 2, 3, 4, 5, 6, 7), ()])
def test_only_the_lanes_of_the_mask_are_written(lanes):
    machine = llvm_machine(Target("llvm"))
    described = {"triple": machine.triple, "cpu": machine.cpu, "features": machine.features}
    made = compile_text({"machine": described, "formats": ["o"], "opt_level": 2}, text(*lanes))
    library = Library.from_objects([made["o"]])
    target, source = np.full(8, 77, "int16"), np.arange(8, dtype="int32") + 100
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.symbol("f"))
    call(target.ctypes.data, source.ctypes.data)
    expected = [100 + lane if lane in lanes else 77 for lane in range(8)]
    assert target.tolist() == expected


def test_other_stores_stay():
    module = parse(text(0, 1), [])
    assert without_single_lane_stores(module) is module
    changed = str(without_single_lane_stores(parse(text(3), [])))
    assert "call void @llvm.masked.store" not in changed and "store i16" in changed


def test_attributes_of_the_pointer_belong_to_the_call():
    noted = text(0).replace("ptr align 2 %p", "ptr nonnull align 2 %p")
    changed = str(without_single_lane_stores(parse(noted, [])))
    assert "store i16 %single.lane.1, ptr %p, align 2" in changed
