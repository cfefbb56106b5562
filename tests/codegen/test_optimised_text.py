"""Optimised text that LLVM 22 would compile wrongly is rewritten: masked stores of one fixed lane,
which it writes too wide, masks that it loses, and quotients of bytes that it takes for 0."""

import ctypes
import re

import numpy as np
import pytest

from tilesmith.codegen.llvm.compile import compile_formats
from tilesmith.codegen.llvm.machine_code import (
    compile_text,
    parse,
    without_byte_divisions,
    without_lost_masks,
    without_single_lane_stores,
)
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


def compiled(text):
    machine = llvm_machine(Target("llvm"))
    described = {"triple": machine.triple, "cpu": machine.cpu, "features": machine.features}
    made = compile_text({"machine": described, "formats": ["o"], "opt_level": 2}, text)
    return Library.from_objects([made["o"]])


@pytest.mark.parametrize("lanes", [(0,), (3,), (7,), (0, 5), (0, 1, 2, 3, 4, 5, 6, 7), ()])
def test_only_the_lanes_of_the_mask_are_written(lanes):
    library = compiled(text(*lanes))
    target, source = np.full(8, 77, "int16"), np.arange(8, dtype="int32") + 100
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.symbol("f"))
    call(target.ctypes.data, source.ctypes.data)
    expected = [100 + lane if lane in lanes else 77 for lane in range(8)]
    assert target.tolist() == expected


def test_other_stores_stay():
    assert without_single_lane_stores(text(0, 1)) == text(0, 1)
    changed = without_single_lane_stores(text(3))
    assert "call void @llvm.masked.store" not in changed and "store i16" in changed


def test_attributes_of_the_pointer_belong_to_the_call():
    noted = text(0).replace("ptr align 2 %p", "ptr nonnull align 2 %p")
    changed = without_single_lane_stores(str(parse(noted, [])))
    assert "store i16 %single.lane.1, ptr %p, align 2" in changed


SIGNS = """
define void @f(ptr %x, ptr %others, ptr %signs, ptr %y) ATTRIBUTES {
  %a = load <LANES x TYPE>, ptr %x, align 1
  %negative = icmp slt <LANES x TYPE> %a, zeroinitializer
  %integer = bitcast <LANES x i1> %negative to iLANES
  %wide = zext iLANES %integer to i64
  store volatile i64 %wide, ptr %signs
  %o = load volatile iLANES, ptr %others
  %other = bitcast iLANES %o to <LANES x i1>
  %both = and <LANES x i1> %negative, %other
  %place = getelementptr i8, ptr %others, i64 8
  %p = load volatile iLANES, ptr %place
  %more = bitcast iLANES %p to <LANES x i1>
  %mask = or <LANES x i1> %both, %more
  %b = load <LANES x TYPE>, ptr %y, align 1
  %c = select <LANES x i1> %mask, <LANES x TYPE> %a, <LANES x TYPE> %b
  store <LANES x TYPE> %c, ptr %y, align 1
  ret void
}
"""


def signs_program(lanes, bits, target="llvm"):
    machine = llvm_machine(Target(target))
    attributes = f'"target-cpu"="{machine.cpu}" "target-features"="{machine.features}"'
    given = {"LANES": str(lanes), "TYPE": f"i{bits}", "ATTRIBUTES": attributes}
    text = SIGNS
    for word, value in given.items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize(("lanes", "bits"), [(8, 32), (4, 64), (16, 8), (32, 8), (16, 32), (8, 64)])
def test_signs_are_an_integer_and_a_mask(lanes, bits):
    library = compiled(signs_program(lanes, bits))
    rng = np.random.default_rng(lanes)
    for _ in range(4):
        x = rng.integers(-100, 100, lanes).astype(f"int{bits}")
        y = np.arange(lanes).astype(x.dtype)
        others, more = rng.integers(0, 2, (2, lanes)).astype(bool)
        packed = np.zeros(16, "uint8")
        for place, one in ((0, others), (8, more)):
            bits_of = np.packbits(one, bitorder="little")
            packed[place : place + len(bits_of)] = bits_of
        signs = np.zeros(8, "uint8")
        mask = (x < 0) & others | more
        expected = np.where(mask, x, y)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(library.symbol("f"))
        call(*[array.ctypes.data for array in (x, packed, signs, y)])
        assert y.tolist() == expected.tolist()
        assert np.unpackbits(signs, bitorder="little")[:lanes].tolist() == (x < 0).tolist()


def test_only_functions_that_use_signs_as_integers_change():
    assert without_lost_masks(text(0, 1)) == text(0, 1)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    program = str(parse(signs_program(8, 32, target), []))
    changed = without_lost_masks(program)
    assert "-avx512dq" in changed and "-avx512bw" not in changed
    parse(changed, [])
    as_mask_only = program.replace(
        "%integer = bitcast <8 x i1> %negative to i8", "%integer = add i8 3, 4"
    )
    assert without_lost_masks(as_mask_only) == as_mask_only
    named = program.replace("ret void", "call void @llvm.x86.sse2.mfence()\n  ret void")
    assert without_lost_masks(named) == named


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_other_cpus_keep_their_features(triple):
    words = '"target-cpu"="" "target-features"="+given"'
    program = re.sub(r'"target-cpu"=.*(?= \{)', words, signs_program(8, 32))
    described = {"triple": triple, "cpu": "", "features": ""}
    made = compile_text({"machine": described, "formats": ["ll"], "opt_level": 2}, program)
    assert (b'"+given,-avx512dq"' in made["ll"]) == triple.startswith("x86_64")


DIVISION = """
define void @f(ptr %x, ptr %y) {
  %a = load <LANES x i8>, ptr %x, align 1
  %b = load <LANES x i8>, ptr %y, align 1
  %1 = OPERATION <LANES x i8> %a, DIVISOR
  %"in order" = shufflevector <LANES x i8> %1, <LANES x i8> poison, <LANES x i32> <ORDER>
  %c = mul <LANES x i8> %"in order", %b
  store <LANES x i8> %c, ptr %y, align 1
  ret void
}
"""


@pytest.mark.parametrize("operation", ["udiv", "urem", "sdiv", "srem"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 12, 16, 20, 32, 33])
@pytest.mark.parametrize("divisors", [(3,), (-7,), (3, 100)])
def test_products_of_reordered_quotients(operation, lanes, divisors):
    given = np.resize(np.array(divisors, "int8"), lanes)
    constants = ", ".join(f"i8 {value}" for value in given)
    words = {
        "LANES": str(lanes),
        "OPERATION": operation,
        "DIVISOR": f"<{constants}>",
        "ORDER": ", ".join(f"i32 {lanes - 1 - lane}" for lane in range(lanes)),
    }
    program = DIVISION
    for word, value in words.items():
        program = program.replace(word, value)
    changed = without_byte_divisions(str(parse(program, [])))
    assert (
        f"{operation} <{lanes} x i16>" in changed and f"{operation} <{lanes} x i8>" not in changed
    )
    library = compiled(program)
    rng = np.random.default_rng(lanes)
    kind = "uint8" if operation[0] == "u" else "int8"
    for _ in range(4):
        x = rng.integers(0, 256, lanes).astype("uint8").view(kind)
        y = rng.integers(0, 256, lanes).astype("uint8").view(kind)
        quotient = (x.astype("float64") / given.view(kind)).astype("int64")  # towards zero
        rest = x.astype("int64") - quotient * given.view(kind)
        exact = quotient if operation.endswith("div") else rest
        expected = (exact[::-1] * y).astype("uint8")
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.symbol("f"))
        call(x.ctypes.data, y.ctypes.data)
        assert y.view("uint8").tolist() == expected.tolist()


PAIRS = (
    """
define void @f(ptr noalias %x, ptr noalias %y) {
"""
    + "".join(
        f"""  %x{k} = getelementptr i32, ptr %x, i64 {k}
  %y{k} = getelementptr i32, ptr %y, i64 {k}
  %a{k} = load i32, ptr %x{k}, align 4
  %b{k} = mul i32 %a{k}, 3
  store i32 %b{k}, ptr %y{k}, align 4
"""
        for k in range(4)
    )
    + """  ret void
}
"""
)


@pytest.mark.parametrize("target", ["llvm", "llvm -cl-opt=-vectorize-slp"])
def test_adjacent_scalars_become_vectors_on_request(target):
    made = compile_formats(PAIRS, Target(target), ("ll",))["ll"].decode()
    assert ("<4 x i32>" in made) == ("slp" in target)
