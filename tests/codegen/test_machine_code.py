"""What comes out of LLVM: registers and stack of tiles, loop forms, other machines, errors."""

import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.harness import HOST, Compiled, kernel
from tilesmith import build, codegen, nd, te
from tilesmith.codegen.llvm import assembly, compile_text, emit_text
from tilesmith.codegen.llvm import code as llvm_code
from tilesmith.ir import (
    Broadcast,
    Call,
    IRModule,
    PointerType,
    PrimType,
    Ramp,
    StringImm,
    Var,
    const,
)
from tilesmith.ir.operators import cast
from tilesmith.runtime import requirements
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError, TargetError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import (
    Allocate,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    decl_buffer,
    nearbyint,
    stmt_seq,
)


def register_tile(rows, vectors, depth, lanes=8, **annotations):
    """`C[rows, vectors * lanes] = A^T B` as three rolled loops over a local array."""
    width = vectors * lanes
    a = decl_buffer((depth * rows,), "float32", "a")
    b = decl_buffer((depth * width,), "float32", "b")
    c = decl_buffer((rows * width,), "float32", "c")
    memory = Var("sums", PointerType(PrimType("float32"), "local"))
    sums = decl_buffer((rows * width,), "float32", "sums", data=memory)

    def unrolled(name, extent, body):
        var = Var(name, "int32")
        return For(
            var, 0, extent, ForKind.UNROLLED, body(var), annotations={"pragma_unroll_explicit": 0}
        )

    def tile(body):
        return unrolled("i", rows, lambda i: unrolled("j", vectors, lambda j: body(i, j)))

    def vector(buffer, base):
        return BufferLoad(buffer, [Ramp(base, 1, lanes)])

    def place(i, j):
        return [Ramp((i * vectors + j) * lanes, 1, lanes)]

    k = Var("k", "int32")
    zero = Broadcast(const(0.0, "float32"), lanes)
    step = tile(lambda i, j: BufferStore(
        sums,
        vector(sums, (i * vectors + j) * lanes)
        + Broadcast(BufferLoad(a, [k * rows + i]), lanes) * vector(b, k * width + j * lanes),
        place(i, j),
    ))  # fmt: skip
    body = stmt_seq(
        tile(lambda i, j: BufferStore(sums, zero, place(i, j))),
        For(k, 0, depth, ForKind.SERIAL, step, annotations=annotations),
        tile(lambda i, j: BufferStore(c, vector(sums, (i * vectors + j) * lanes), place(i, j))),
    )
    return kernel([a, b, c], Allocate(memory, "float32", [rows * width], const(True, "bool"), body))


@pytest.mark.parametrize("rows, vectors", [(6, 2), (4, 3), (2, 4)])
def test_register_tile_stays_in_registers(rows, vectors):
    depth, width = 64, vectors * 8
    compiled = Compiled(register_tile(rows, vectors, depth))
    random = np.random.default_rng(0)
    a, b = [random.standard_normal(s).astype("float32") for s in ((depth, rows), (depth, width))]
    c = np.zeros((rows, width), "float32")
    compiled(a, b, c)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-4, atol=1e-4)
    if not HOST.features.has_avx2:
        pytest.skip("looks at AVX2 code")
    code = compiled.module.get_source("asm")
    code = code[code.index("\nkernel:") : code.index(".size\tkernel")]
    assert not re.findall(r"\(%rsp|\(%rbp", code)
    fused = len(re.findall(r"vfmadd\w+ps", code))
    assert fused and fused % (rows * vectors) == 0


def test_tile_for_avx512():
    text = emit_text(
        IRModule({"kernel": register_tile(14, 2, 64, 16)}), Target("llvm -mcpu=skylake-avx512")
    )
    code = assembly(text, Target("llvm -mcpu=skylake-avx512"))
    code = code[code.index("\nkernel:") : code.index(".size\tkernel")]
    assert "zmm" in code and not re.findall(r"\(%rsp|\(%rbp", code)


def test_unrolling_can_be_forbidden():
    def fused(**annotations):
        code = Compiled(register_tile(6, 2, 64, **annotations)).module.get_source("asm")
        return len(re.findall(r"vfmadd\w+ps", code))

    if not HOST.features.has_avx2:
        pytest.skip("looks at AVX2 code")
    assert fused(pragma_unroll_disable=True) == 12
    assert fused(**{"llvm.loop.unroll.count": 4}) == 48


def test_plain_loops_are_vectorised_by_llvm():
    a, b = decl_buffer((1024,), "float32", "a"), decl_buffer((1024,), "float32", "b")
    i = Var("i", "int32")
    body = For(i, 0, 1024, ForKind.SERIAL, BufferStore(b, BufferLoad(a, [i]) * 2.0 + 1.0, [i]))
    code = Compiled(kernel([a, b], body)).module.get_source("asm")
    if HOST.features.has_avx2:
        assert re.search(r"vfmadd\w+ps\s.*%[yz]mm", code)


def test_maximum_is_one_instruction():
    a, b = decl_buffer((64,), "float32", "a"), decl_buffer((64,), "float32", "b")
    i = Var("i", "int32")
    whole = Ramp(i * 8, 1, 8)
    value = Call("float32x8", "tir.likely", (BufferLoad(a, [whole]),))
    from tilesmith.tir import Max

    body = For(
        i,
        0,
        8,
        ForKind.SERIAL,
        BufferStore(b, Max(value, Broadcast(const(0.0, "float32"), 8)), [whole]),
    )
    code = Compiled(kernel([a, b], body)).module.get_source("asm")
    if HOST.features.has_avx2:
        assert "vmaxps" in code and "vcmp" not in code


FOREIGN = {
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72": b"\x7fELF",
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+fullfp16": b"\x7fELF",
    "llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74": b"\x7fELF",
    "llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon": b"\x7fELF",
    "llvm -mtriple=arm64-apple-macos": b"\xcf\xfa\xed\xfe",
    "llvm -mtriple=x86_64-pc-windows-msvc": b"\x64\x86",
    "llvm -mtriple=thumbv7em-none-eabi -mcpu=cortex-m4": b"\x7fELF",
    "llvm -mtriple=riscv32-unknown-elf -mattr=+m,+f,+d": b"\x7fELF",
    "llvm -mtriple=wasm32-unknown-unknown": b"\0asm",
    "llvm -mtriple=hexagon": b"\x7fELF",
    "llvm -mtriple=powerpc64le-linux-gnu": b"\x7fELF",
    "llvm -mcpu=sapphirerapids": b"\x7fELF",
    "llvm -mcpu=x86-64": b"\x7fELF",
}


@pytest.mark.parametrize("target", FOREIGN)
def test_other_machines(target):
    module = _varied_module()
    built = codegen.build(module, Target(target))
    assert built.objects[0].startswith(FOREIGN[target])
    assert built.get_source("ll").startswith("target triple")
    assert "kernel" in built.get_source("asm")


def _varied_module():
    """Parallel loop, float16, allocation, mathematics, packed call."""
    from tilesmith.tir import Evaluate, call_packed

    a, b = decl_buffer((256,), "float16", "a"), decl_buffer((256,), "bfloat16", "b")
    n = Var("n", "int32")
    memory = decl_buffer((n,), "float32", "memory")
    i = Var("i", "int32")
    whole = Ramp(i * 8, 1, 8)
    value = Call("float32x8", "tir.exp", (BufferLoad(a, [whole]).astype("float32x8"),))
    body = For(i, 0, 32, ForKind.PARALLEL, stmt_seq(
        BufferStore(memory, value, [whole]),
        BufferStore(b, BufferLoad(memory, [whole]).astype("bfloat16x8"), [whole]),
        Evaluate(call_packed("test.codegen.other", i)),
    ))  # fmt: skip
    body = Allocate(memory.data, "float32", [n], const(True, "bool"), body)
    return IRModule({"kernel": kernel([a, b, n], body)})


@pytest.mark.parametrize(
    "intrinsic, dtypes, result, target, instruction",
    [
        ("llvm.x86.avx512.vpdpbusd.512", ("int32x16", "uint8x64", "int8x64"), "int32x16",
         "llvm -mcpu=sapphirerapids", "vpdpbusd"),
        ("llvm.x86.avx512bf16.dpbf16ps.512", ("float32x16", "bfloat16x32", "bfloat16x32"),
         "float32x16", "llvm -mcpu=sapphirerapids", "vdpbf16ps"),
        ("llvm.aarch64.neon.sdot.v4i32.v16i8", ("int32x4", "int8x16", "int8x16"), "int32x4",
         "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod", "sdot"),
        ("llvm.aarch64.neon.smmla.v4i32.v16i8", ("int32x4", "int8x16", "int8x16"), "int32x4",
         "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+i8mm", "smmla"),
    ],
)  # fmt: skip
def test_instructions_of_a_family(intrinsic, dtypes, result, target, instruction):
    made = [DataType(dtype) for dtype in dtypes]
    sources = [decl_buffer((64,), dtype.element, f"in{n}") for n, dtype in enumerate(made)]
    output = decl_buffer((64,), DataType(result).element, "out")
    loaded = [
        BufferLoad(buffer, [Ramp(const(0, "int32"), 1, dtype.lanes)])
        for buffer, dtype in zip(sources, made)
    ]
    call = Call(result, "tir.call_llvm_pure_intrin", (StringImm(intrinsic), *loaded))
    body = BufferStore(output, call, [Ramp(const(0, "int32"), 1, DataType(result).lanes)])
    module = IRModule({"kernel": kernel([*sources, output], body)})
    assert instruction in codegen.build(module, Target(target)).get_source("asm")


@pytest.mark.parametrize(
    "target, instruction",
    [
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+bf16", "bfcvt"),
        ("llvm -mcpu=sapphirerapids -fast-math=1", "vcvtneps2bf16"),
        ("llvm -mcpu=sapphirerapids", ""),  # its instruction takes subnormal numbers for zero
    ],
)
def test_conversions_to_bfloat16(target, instruction):
    a, b = decl_buffer((64,), "float32", "a"), decl_buffer((64,), "bfloat16", "b")
    whole = Ramp(const(0, "int32"), 1, 16)
    body = BufferStore(b, BufferLoad(a, [whole]).astype("bfloat16x16"), [whole])
    code = codegen.build(IRModule({"kernel": kernel([a, b], body)}), Target(target))
    found = re.findall("bfcvt|vcvtneps2bf16", code.get_source("asm"))
    assert set(found) == ({instruction} if instruction else set())


@pytest.mark.parametrize(
    "abi, words",
    [
        ("hard", r"vadd\.f32\s+s0"),
        ("softfp", r"vmov\s+s\d, r"),
        ("soft", r"bl\s+__(addsf3|aeabi_fadd)"),
    ],
)
def test_floats_of_arm_in_their_registers_or_not(abi, words):
    x = Var("x", "float32")
    body = Evaluate(Call("float32", "tir.ret", (x + x * 2.0,)))
    function = PrimFunc([x], body, PrimType("float32"), attrs={"global_symbol": "kernel"})
    target = f"llvm -mtriple=armv7a-linux-gnueabi -mattr=+vfp3 -mfloat-abi={abi}"
    code = codegen.build(IRModule({"kernel": function}), Target(target)).get_source("asm")
    assert re.search(words, code) or (abi == "hard" and re.search(r"vm\w+\.f32\s+s0", code))
    with pytest.raises(TargetError, match="hard, soft or softfp"):
        codegen.build(IRModule({"kernel": function}), Target(target + "er"))


def test_options_of_llvm_reach_it():
    a, b = decl_buffer((64,), "float32", "a"), decl_buffer((64,), "float32", "b")
    i, n = Var("i", "int32"), Var("n", "int32")
    body = For(i, 0, n, ForKind.SERIAL, BufferStore(b, BufferLoad(a, [i]) + 1.0, [i]))
    module = IRModule({"kernel": kernel([a, b, n], body)})

    def vectors(options):
        code = codegen.build(module, Target("llvm" + options)).get_source("asm")
        return len(re.findall("addps", code))

    assert vectors("") and not vectors(" -cl-opt=-vectorize-loops:bool=false,-vectorize-slp=false")


def test_code_for_another_machine_does_not_run_here():
    built = codegen.build(_varied_module(), Target("llvm -mtriple=aarch64-linux-gnu"))
    if HOST.features.is_x86:
        assert not built.is_runnable


@pytest.mark.parametrize("lacking, runs", [(["pku", "clwb"], True), (["pku", "avx512f"], False)])
def test_only_what_a_compiler_uses_has_to_be_there(monkeypatch, lacking, runs):
    host = SimpleNamespace(triple="x86_64-unknown-linux-gnu")
    monkeypatch.setattr(llvm_code, "host_cpu", lambda: host)
    monkeypatch.setattr(requirements, "system_features", frozenset)
    monkeypatch.setattr(requirements, "llvm_features", lambda: dict.fromkeys(lacking, False))
    assert codegen.llvm.is_runnable(Target("llvm -mcpu=skylake-avx512")) == runs


def test_threads_are_bounded_by_the_target():
    text = emit_text(_varied_module(), Target("llvm -num-cores=3"))
    assert re.search(r"@__tilesmith_max_threads = .*i32 3", text)


def test_refused_text_shows_its_lines():
    text = "define i32 @f() {\n  %a = add i32 1, %b\n  ret i32 %a\n}\n"
    for target in (HOST, Target("llvm -mtriple=aarch64-linux-gnu")):
        with pytest.raises(CodegenError, match=r"(?s)line 2.*undefined value.*>     2:   %a = add"):
            compile_text(text, target)


def test_crash_of_llvm_is_an_error():
    text = (
        "declare <16 x float> @llvm.x86.avx512.rsqrt14.ps.512(<16 x float>, <16 x float>, i16)\n"
        "define <16 x float> @f(<16 x float> %x) {\n"
        "  %y = call <16 x float> @llvm.x86.avx512.rsqrt14.ps.512("
        "<16 x float> %x, <16 x float> %x, i16 -1)\n"
        "  ret <16 x float> %y\n}\n"
    )
    with pytest.raises(CodegenError, match="could not make code for"):
        compile_text(text, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    # the next request finds a new process
    plain = "define i32 @f() {\n  ret i32 0\n}\n"
    assert compile_text(plain, Target("llvm -mtriple=aarch64-linux-gnu")).startswith(b"\x7fELF")


def test_unknown_kind_of_target():
    with pytest.raises(UnsupportedError, match="no back end"):
        codegen.build(IRModule({}), Target("hexagon"))


def test_bitcode_and_files_of_all_forms(tmp_path):
    module = codegen.build(_varied_module(), HOST)
    for form, begin in (("bc", b"BC\xc0\xde"), ("ll", b"target triple"), ("asm", b"\t"),
                        ("o", b"\x7fELF")):  # fmt: skip
        module.save(tmp_path / f"module.{form}")
        assert (tmp_path / f"module.{form}").read_bytes().startswith(begin)
    module.save(tmp_path / "module.s")
    assert (tmp_path / "module.s").read_bytes() == (tmp_path / "module.asm").read_bytes()


def test_sources():
    module = codegen.build(_varied_module(), HOST)
    assert "define protected i32 @kernel" in module.get_source("ll")
    assert module.get_source() == module.get_source("ll")
    assert "fma" in module.get_source("ll.opt") or "define" in module.get_source("ll.opt")
    assert "kernel:" in module.get_source("asm")


def test_functions_stand_by_name_and_say_their_processor():
    """Whatever the order of the module's functions, so that equal modules have equal texts; other
    tools of LLVM then compile the text for the same processor.
    """
    parts = {
        name: kernel([], Evaluate(const(0, "int32")), name) for name in ("zed", "alpha", "mid")
    }
    target = Target("llvm -mcpu=skylake-avx512")
    texts = {
        emit_text(IRModule({name: parts[name] for name in order}), target)
        for order in (("zed", "alpha", "mid"), ("mid", "zed", "alpha"))
    }
    (text,) = texts
    heads = re.findall(r"^define .*@(\w+)\(.*\) nounwind #0 {$", text, re.MULTILINE)
    assert heads == ["alpha", "mid", "zed"]
    (attributes,) = re.findall(r"^attributes #0 = {(.*)}$", text, re.MULTILINE)
    assert '"target-cpu"="skylake-avx512"' in attributes
    assert '"target-features"="-prefer-256-bit"' in attributes


@pytest.mark.parametrize("size", [1, 37])
def test_rounding_to_an_integer_is_one_instruction(size):
    x = te.placeholder((size,), "float32", "x")
    y = te.compute((size,), lambda i: cast("int32", nearbyint(x[i])), "y")
    built = build(te.create_prim_func([x, y]), target="llvm")
    values = np.resize([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, -7.51, 1e6 + 0.5], size)
    values = values.astype("float32")
    out = nd.array(np.zeros(size, "int32"))
    built["main"](nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), np.rint(values).astype("int32"))
    zen = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"
    text = build(te.create_prim_func([x, y]), target=zen).get_source("asm")
    assert "cvtps2dq" in text or "cvtss2si" in text
    assert "vroundss" not in text and "vrndscale" not in text


def test_conversions_to_bfloat16_may_flush():
    """The instruction rounds as integer arithmetic does, but takes subnormal numbers for 0."""
    values = [1.00390625, 1.01171875, -3.0e38, 3.4e38, np.inf, np.nan, -0.0, 1e-30, 1e-40]
    size = 37
    values = np.resize(values, size).astype("float32")
    x = te.placeholder((size,), "float32", "x")
    y = te.compute((size,), lambda i: cast("bfloat16", x[i]), "y")
    function = te.create_prim_func([x, y])
    results = []
    for flag in ("", " -flush-subnormals=1"):
        other = f"llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake{flag}"
        assert ("vcvtneps2bf16" in build(function, target=other).get_source("asm")) == bool(flag)
        out = nd.array(np.zeros(size, ml_dtypes.bfloat16))
        build(function, target=f"llvm{flag}")["main"](nd.array(values), out)
        results.append(out.numpy().astype("float32"))
    np.testing.assert_array_equal(results[0], values.astype(ml_dtypes.bfloat16).astype("float32"))
    np.testing.assert_array_equal(results[1], np.where(abs(values) < 2e-38, results[1], results[0]))
    small = abs(values) < 2e-38
    assert (abs(results[1][small] - values[small]) < 2**-126).all()
