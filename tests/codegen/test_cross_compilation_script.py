"""Code for Armv7 with NEON, AArch64 and RISC-V with vectors: its instructions, and its results in
QEMU.
"""

import re

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.emulated import Program, needs
from tilesmith import te, tir
from tilesmith.ir import IRModule
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, IncompatibleCodeError

TARGETS = {
    "armv7": "llvm -device=arm_cpu -mtriple=armv7a-linux-gnueabihf -mattr=+neon",
    "aarch64": "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod,+i8mm,+fullfp16",
    "riscv64": "llvm -mtriple=riscv64-linux-gnu -mabi=lp64d -mattr=+m,+a,+f,+d,+c,+v",
}
CPUS = {
    "armv7": ("cortex-a15",),
    "aarch64": ("max",),
    "riscv64": tuple(f"rv64,v=true,vext_spec=v1.0,vlen={bits}" for bits in (128, 512)),
}


def elementwise(lanes, size=45):
    """max(a * b + 1, 0), in vectors and a rest."""
    a, b = (te.placeholder((size,), name=name) for name in "ab")
    made = te.compute((size,), lambda i: te.max(a[i] * b[i] + 1.0, 0.0), name="made")
    sch = tir.Schedule(te.create_prim_func([a, b, made]))
    (loop,) = sch.get_loops(sch.get_block("made"))
    _, inner = sch.split(loop, [None, lanes])
    sch.vectorize(inner)
    return sch.mod["main"]


def product(rows, columns, depth, a_dtype, b_dtype, c_dtype):
    """``A @ W.T``."""

    @T.prim_func
    def main(
        A: T.Buffer((rows, depth), a_dtype),
        W: T.Buffer((columns, depth), b_dtype),
        C: T.Buffer((rows, columns), c_dtype),
    ):
        for i, j, k in T.grid(rows, columns, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c_dtype, 0)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(W[vj, vk], c_dtype)

    return main


def vectorized_product(lanes, dtypes):
    """A product whose columns are vectors: the rows of W are gathered into a copy first."""
    sch = tir.Schedule(product(6, 24, 20, *dtypes))
    block = sch.get_block("C")
    sch.transform_layout(block, "W", lambda j, k: [j // lanes, k, j % lanes])
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, [None, lanes])
    sch.reorder(i, outer, k, inner)
    sch.vectorize(inner)
    sch.decompose_reduction(block, k)
    return sch.mod["main"]


# tensor intrinsic: its dtypes, and how many rows, columns and steps of the sum it takes
DOTS = {
    "dot_4x4_i8i8s32_neon": (("int8", "int8", "int32"), (1, 4, 4), "smull"),
    "dot_4x4_i8i8s32_sdot": (("int8", "int8", "int32"), (1, 4, 4), "sdot"),
    "dot_4x4_u8u8u32_udot": (("uint8", "uint8", "uint32"), (1, 4, 4), "udot"),
    "mma_2x2x8_i8i8i32_smmla": (("int8", "int8", "int32"), (2, 2, 8), "smmla"),
    "mma_2x2x8_u8u8u32_ummla": (("uint8", "uint8", "uint32"), (2, 2, 8), "ummla"),
    "mma_2x2x8_u8i8i32_usmmla": (("uint8", "int8", "int32"), (2, 2, 8), "usmmla"),
}


def tensorized_product(name):
    dtypes, (rows, columns, steps), _ = DOTS[name]
    sch = tir.Schedule(product(6, 12, 24, *dtypes), debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    pairs = [sch.split(loop, [None, size]) for loop, size in zip((i, j, k), (rows, columns, steps))]
    sch.reorder(*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
    sch.decompose_reduction(block, pairs[2][0])
    sch.tensorize(pairs[1][1] if rows == 1 else pairs[0][1], name)
    return sch.mod["main"]


@T.prim_func(check_well_formed=False)
def scalable(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
    """Vectors as long as the machine's."""
    T.func_attr({"global_symbol": "scalable", "tir.noalias": True})
    step = T.meta_var(4 * T.vscale())
    for i in range((100 + step - 1) // step):
        lanes = T.meta_var(T.Ramp(i * step, 1, step))
        inside = T.get_active_lane_mask("boolxvscalex4", i * step, 100)
        B.vstore(
            [lanes],
            A.vload([lanes], predicate=inside) * T.Broadcast(T.float32(3), step),
            predicate=inside,
        )


FLOATS, BYTES = ("float32",) * 3, ("int8", "int8", "int32")

PROGRAMS = {
    "armv7": {
        "elementwise": lambda: elementwise(4),
        "floats": lambda: vectorized_product(4, FLOATS),
        "bytes": lambda: vectorized_product(8, BYTES),
    },
    "aarch64": {
        "elementwise": lambda: elementwise(4),
        "floats": lambda: vectorized_product(4, FLOATS),
        **{name: lambda name=name: tensorized_product(name) for name in DOTS},
    },
    "riscv64": {
        "elementwise": lambda: elementwise(8),
        "floats": lambda: vectorized_product(8, FLOATS),
        "bytes": lambda: vectorized_product(8, BYTES),
        "scalable": lambda: scalable,
    },
}
INSTRUCTIONS = {
    "armv7": {
        "elementwise": (r"vld1\.32\s+{d\d+, d\d+}", r"v(mul|mla)\.f32\s+q\d", r"vclt\.f32\s+q\d"),
        "floats": (r"v(mul|mla)\.f32\s+q\d",),
        "bytes": (r"vmovl\.s8\s+q\d", r"vml?[au]l?\.[is]\d+\s+q\d"),
    },
    "aarch64": {
        "elementwise": (r"fml?[au]l?\s+v\d+\.4s", r"fcmlt\s+v\d+\.4s"),
        "floats": (r"fml?[au]l?\s+v\d+\.4s",),
        **{name: (rf"\b{word}\b",) for name, (_, _, word) in DOTS.items()},
    },
    "riscv64": {
        "elementwise": (r"vsetivli|vsetvli", r"vle32\.v", r"vf(mul|madd|macc)\.v", r"vse32\.v"),
        "floats": (r"vle32\.v", r"vfm(ul|acc|add)\.vf"),
        "bytes": (r"vle8\.v", r"v(wmul|wmacc|mul|macc|madd)\w*\.v"),
        "scalable": (r"vsetvli", r"vfmul\.v", r"vse32\.v"),
    },
}
CASES = [(machine, name) for machine, programs in PROGRAMS.items() for name in programs]


def built(machine):
    """All programs for one machine, in one module."""
    functions = {
        name: make().with_attr("global_symbol", name) for name, make in PROGRAMS[machine].items()
    }
    return ts.build(IRModule(functions), target=TARGETS[machine])


@pytest.fixture(scope="module")
def assembly():
    known = {}

    def of(machine, name):
        if machine not in known:
            known[machine] = built(machine).get_source("asm")
        found = re.search(rf"(?ms)^{re.escape(name)}:.*?^\.Lfunc_end", known[machine])
        assert found, f"the assembly has no function {name}"
        return found[0]

    return of


@pytest.mark.parametrize("machine, name", CASES)
def test_instructions(assembly, machine, name):
    text = assembly(machine, name)
    for word in INSTRUCTIONS[machine][name]:
        assert re.search(word, text), f"no {word} in\n{text}"


@pytest.mark.parametrize("machine", PROGRAMS)
def test_object_files_are_for_the_machine(machine, tmp_path):
    built(machine).save(str(tmp_path / "x.o"))
    content = (tmp_path / "x.o").read_bytes()
    numbers = {"armv7": (1, 40), "aarch64": (2, 183), "riscv64": (2, 243)}
    assert content[:4] == b"\x7fELF" and (content[4], content[18]) == numbers[machine]


@pytest.mark.parametrize("system, is_hard", [("gnueabihf", True), ("gnueabi", False)])
def test_floats_go_where_the_platform_puts_them(system, is_hard):
    """The linker refuses to mix both kinds."""
    target = f"llvm -mtriple=armv7a-linux-{system} -mattr=+neon"
    text = ts.build(elementwise(4), target=target).get_source("asm")
    assert bool(re.search(r"\.eabi_attribute\s+28, 1", text)) is is_hard


@pytest.mark.parametrize("machine, alignment", [("armv7", 4), ("aarch64", 8)])
def test_pointers_in_arguments_are_as_aligned_as_the_machine_has_them(machine, alignment):
    """Where pointers have 32 bits, those in tensors (DLPack) lie at multiples of 4 only."""
    text = ts.build(elementwise(4), target=TARGETS[machine]).get_source("ll")
    found = re.findall(r"(?:load ptr,|store ptr .*,) ptr \S+, align (\d+)", text)
    assert found and set(found) == {str(alignment)}


def test_code_for_another_machine_says_so_when_it_is_called():
    with pytest.raises(IncompatibleCodeError, match="code is for aarch64, this machine is"):
        built("aarch64")["elementwise"]()


def arrays_and_result(name):
    """Arguments of a program, and what it has to make of them."""
    random = np.random.default_rng(0)
    if name == "scalable":
        a = random.standard_normal(100).astype("float32")
        return [a, np.full(100, np.nan, "float32")], a * np.float32(3)
    if name == "elementwise":
        a, b = (random.standard_normal(45).astype("float32") for _ in range(2))
        return [a, b, np.full(45, np.nan, "float32")], np.maximum(a * b + 1, 0)
    if name in DOTS:
        dtypes, shape = DOTS[name][0], (6, 12, 24)
    else:
        dtypes, shape = FLOATS if name == "floats" else BYTES, (6, 24, 20)
    rows, columns, depth = shape
    if dtypes == FLOATS:
        a, w = (random.standard_normal((n, depth)).astype("float32") for n in (rows, columns))
    else:
        limits = [np.iinfo(dtype) for dtype in dtypes]
        a, w = (
            random.integers(one.min, one.max, (n, depth), endpoint=True).astype(one.dtype)
            for one, n in zip(limits, (rows, columns))
        )
    expected = (a.astype("float64") @ w.T.astype("float64")).astype(dtypes[2])
    if name not in DOTS:  # the columns of W lie in groups of one vector
        lanes = 8 if name == "bytes" else None
        w = (w, lanes)
    return [a, w, np.zeros((rows, columns), dtypes[2])], expected


def in_vectors(weights, lanes):
    columns, depth = weights.shape
    return weights.reshape(columns // lanes, lanes, depth).transpose(0, 2, 1).copy()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A program with all functions of a machine, linked at its first use."""
    known = {}

    def of(machine):
        if machine not in known:
            folder = tmp_path_factory.mktemp(machine)
            known[machine] = Program(
                folder, machine, lambda: built(machine), list(PROGRAMS[machine])
            )
        return known[machine]

    return of


@pytest.mark.parametrize(
    "machine, name", [pytest.param(*case, marks=needs(case[0])) for case in CASES]
)
def test_results(programs, machine, name):
    arrays, expected = arrays_and_result(name)
    for place, array in enumerate(arrays):
        if isinstance(array, tuple):
            weights, lanes = array
            arrays[place] = in_vectors(weights, lanes or (8 if machine == "riscv64" else 4))
    for cpu in CPUS[machine]:
        found = programs(machine).run(name, arrays, cpu)[-1]
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=cpu)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=cpu)


def test_tensors_cannot_be_passed_to_packed_functions_of_a_small_machine():
    a = te.placeholder((4,), name="a")
    called = te.extern(
        (4,), [a], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="called"
    )
    with pytest.raises(CodegenError, match="32-bit"):
        ts.build(te.create_prim_func([a, called]), target=TARGETS["armv7"])
