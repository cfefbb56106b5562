"""Each known name answers: with a schedule, an operator's result, or an error that explains it."""

from __future__ import annotations

import importlib
import inspect

import pytest

import tilesmith as ts
from tests.topi.schedules.examples import EXAMPLES
from tilesmith import te, topi
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.te import Schedule, Tensor
from tilesmith.topi.schedules.published import operator
from tilesmith.topi.schedules.reasons import REASONS
from tilesmith.topi.schedules.table import CPU, DEVICES, families, rows_of

ROWS = [row for family in families() for row in rows_of(family)]


def of_kind(*kinds):
    return pytest.mark.parametrize(
        "row", [row for row in ROWS if row.kind in kinds], ids=lambda row: row.path
    )


def function_of(row):
    return getattr(getattr(topi, row.family), row.name)


def program():
    """A program with a product, a bias and an activation."""
    a, b, c = (te.placeholder(shape, name="x") for shape in ((5, 33), (18, 33), (18,)))
    return topi.nn.relu(topi.nn.dense(a, b, c))


def test_every_name_has_its_published_parameters():
    for row in ROWS:
        shown = str(inspect.signature(function_of(row)))
        assert shown in (str(row.signature()), "(*args, **kwargs)"), row.path


def test_names_are_listed():
    for family in families():
        assert {row.name for row in rows_of(family)} <= set(dir(getattr(topi, family)))


@of_kind("schedule")
def test_schedules(row):
    """With and without AutoTVM's configuration; several parameters have defaults here."""
    target = "llvm" if DEVICES[row.family] is CPU else "cuda"
    known = {"layout": "NCHW", "interleave_A": False}
    others = {name: known[name] for name in row.signature().parameters if name in known}
    result = program()
    with Target(target):
        forms = [function_of(row)([result], **others)]
        if row.takes_configuration:
            forms.append(function_of(row)(None, [result], **others))
            forms.append(
                function_of(row)(**{row.parameters.split(",")[0]: None}, outs=[result], **others)
            )
    for sch in forms:
        assert isinstance(sch, Schedule)
        product = next(stage for stage in sch.stages if "T_matmul_NT" in stage.name)
        assert any(stage.attach_stage is not None for stage in sch.stages), product


@of_kind("existing")
def test_loops_of_one_stage(row):
    a = te.placeholder((64, 1024), name="a")
    b = topi.exp(a)
    sch = te.create_schedule(b.op)
    with Target("cuda" if DEVICES[row.family] is not CPU else "llvm"):
        assert function_of(row)(sch, b) is sch
    assert sch[b].is_scheduled


@of_kind("compute")
def test_operators(row):
    name = (row.meaning.partition("(")[0] or row.name).rpartition(".")[2]
    example = EXAMPLES[name]
    known = example.arguments()
    given = {
        parameter.name: known[parameter.name]
        for parameter in row.signature().parameters.values()
        if parameter.name in known
    }
    missing = [
        parameter.name
        for parameter in row.signature().parameters.values()
        if parameter.default is parameter.empty
        and parameter.name not in (*given, "cfg", "_cfg", "_")
    ]
    assert missing == [], row.path
    if not example.results:  # its arguments hang together in other ways: see the operator's tests
        assert callable(operator(row.meaning.partition("(")[0] or row.name))
        return
    with Target("llvm"):
        made = function_of(row)(**given)
    results = [made] if isinstance(made, Tensor) else list(made)
    shapes = [tuple([int(size) for size in one.shape]) for one in results]
    assert shapes[: len(example.results)] == example.results


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.meaning.startswith("libraries:") and "common" not in row.name],
    ids=lambda row: row.path,
)
def test_library_calls(row):
    """One call of the library, and what its inputs are; running them is tested in tests/contrib."""
    known = {
        "x": (2, 3, 5), "y": (2, 4, 5), "data": (3, 5), "weight": (4, 5), "tensor_a": (3, 5),
        "tensor_b": (5, 4), "bias": (4,), "kernel": (8, 4, 3, 3),
    }  # fmt: skip
    shape = (3, 4)
    if row.name.startswith("batch"):
        known |= {"tensor_a": (2, 3, 5), "tensor_b": (2, 4, 5)}
        shape = (2, 3, 4)
    if row.name.startswith("conv2d"):
        last = "nhwc" in row.name
        known |= {"data": (1, 6, 7, 4) if last else (1, 4, 6, 7)}
        known |= {"kernel": (3, 3, 4, 8)} if last else {}
        shape = (1, 6, 7, 8) if last else (1, 8, 6, 7)
    names = list(row.signature().parameters)
    tensors = {name: te.placeholder(known[name], name=name) for name in names if name in known}
    others = {"strides": 1, "padding": 1, "dilation": 1, "out_dtype": None}
    given = {name: value for name, value in others.items() if name in names}
    result = function_of(row)(**tensors, **given)
    assert tuple([int(size) for size in result.shape]) == shape
    sch = getattr(topi, row.family).schedule_injective([result])
    library = row.name.rpartition("_")[2]
    assert f"tvm.contrib.{library}." in str(ts.lower(sch, [*tensors.values(), result]))


@of_kind("no")
def test_refusals(row):
    with pytest.raises(UnsupportedError) as caught:
        function_of(row)()
    assert row.name in str(caught.value)
    assert REASONS[row.meaning].what in str(caught.value)
    assert caught.value.notes


def test_reasons_are_used():
    assert {row.meaning for row in ROWS if row.kind == "no"} == REASONS.keys()


@pytest.mark.parametrize(
    "mcpu, features",
    [
        ("x86-64", []),
        ("nehalem", ["sse41", "sse42"]),
        ("haswell", ["sse41", "sse42", "avx", "avx2"]),
        ("skylake-avx512", ["sse41", "sse42", "avx", "avx2", "avx512"]),
        ("cascadelake", ["sse41", "sse42", "avx", "avx2", "avx512", "vnni"]),
    ],
)
def test_questions_about_x86(mcpu, features):
    for feature in ("sse41", "sse42", "avx", "avx2", "avx512", "vnni"):
        ask = getattr(topi.x86, f"target_has_{feature}")
        for target in (mcpu, f"llvm -mcpu={mcpu}", Target(f"llvm -mcpu={mcpu}")):
            assert ask(target) is (feature in features), (feature, target)
    with Target(f"llvm -mcpu={mcpu}"):
        has_bytes = "sse42" in features
        assert topi.x86.is_int8_hw_support("uint8", "int8") is has_bytes
        assert not topi.x86.is_int8_hw_support("int8", "int8")
        lanes = 16 if "avx512" in features else 8 if "avx" in features else 4
        assert topi.x86.utils.get_simd_32bit_lanes() == lanes


@pytest.mark.parametrize(
    "options, features",
    [
        ("-mtriple=aarch64-linux-gnu -mattr=+neon", ["neon", "aarch64"]),
        ("-mtriple=aarch64-linux-gnu -mattr=+dotprod", ["neon", "aarch64", "dotprod"]),
        ("-mtriple=aarch64-linux-gnu -mattr=+i8mm", ["neon", "aarch64", "mmla"]),
        ("-mtriple=armv7l-linux-gnueabihf -mattr=+neon", ["neon"]),
        ("-mcpu=haswell", []),
    ],
)
def test_questions_about_arm(options, features):
    with Target(f"llvm -device=arm_cpu {options}" if features else f"llvm {options}"):
        assert topi.arm_cpu.is_neon_available() is ("neon" in features)
        assert topi.arm_cpu.is_aarch64_arm() is ("aarch64" in features)
        assert topi.arm_cpu.is_dotprod_available() is ("dotprod" in features)
        assert topi.arm_cpu.is_mmla_available() is ("mmla" in features)
    assert topi.arm_cpu.get_arch_version(["+neon", "+v8.2a"]) == 8.2
    assert topi.arm_cpu.get_arch_version(None) == 8.0


def test_names_in_modules_of_older_programs():
    from tilesmith.compat import tvm as alias

    alias.install()
    proposals = importlib.import_module("tvm.topi.cuda.rcnn.proposal")
    from tvm.topi.arm_cpu.mprofile.dsp.micro_kernel.gemm import intrin_gemm_MxKxN
    from tvm.topi.x86.conv2d import schedule_conv2d_nchw
    from tvm.topi.x86.utils import get_simd_32bit_lanes

    assert schedule_conv2d_nchw is topi.x86.schedule_conv2d_nchw
    assert get_simd_32bit_lanes is topi.x86.utils.get_simd_32bit_lanes
    assert intrin_gemm_MxKxN is topi.arm_cpu.intrin_gemm_MxKxN
    assert proposals.proposal is topi.cuda.proposal


def test_generic_schedules_follow_the_current_target():
    result = program()
    with Target("cuda"):
        bound = topi.generic.schedule_dense([result])
    plain = topi.generic.schedule_dense([result])
    threads = [
        found.bind_thread
        for sch in (bound, plain)
        for stage in sch.stages
        for found in stage.iter_var_attrs.values()
    ]
    assert any(thread is not None for thread in threads)
    assert not any(
        found.bind_thread for stage in plain.stages for found in stage.iter_var_attrs.values()
    )


def test_default_schedule_keeps_the_loops():
    result = program()
    plain = topi.generic.default_schedule([result], False)
    assert not any(stage.is_scheduled for stage in plain.stages)
    a = te.placeholder((4, 5), name="a")
    b = topi.exp(topi.add(topi.negative(a), 1.0))
    inlined = topi.generic.default_schedule(b, True)
    text = str(ts.lower(inlined, [a, b], simple_mode=True))
    assert text.count("for ") == 1 and "range(20)" in text
