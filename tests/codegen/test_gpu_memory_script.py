"""Memory as OpenCL C on a device: wide accesses at known and unknown alignment, parts of bytes,
overlapping vectors, constants, pointers.
"""

import numpy as np

from tests.codegen.harness import kernel
from tests.codegen.opencl_harness import OPENCL, Program, needs_opencl
from tests.codegen.test_gpu_kernels_script import arrays_of, kernels_of, launch
from tests.codegen.test_gpu_text_script import ACCESSES, elementwise, shared_rows
from tilesmith import tir
from tilesmith.codegen.gpu import emit_source
from tilesmith.ir import Broadcast, Call, Cast, IRModule, Ramp, Shuffle, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import array as tensor
from tilesmith.runtime.packed_elements import pack, unpack
from tilesmith.tir import (
    AllocateConst,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    decl_buffer,
)
from tilesmith.tir.interpreter import run

pytestmark = needs_opencl


def test_vectors_of_all_widths():
    functions = {}
    for dtype, lanes, *_ in ACCESSES:
        for offset in (0, 1):
            name = f"copy_{dtype}_{lanes}_{offset}"
            made = elementwise(lambda a: a, dtype, lanes, offset=offset)
            functions[name] = made.with_attr("global_symbol", name)
    lanes_of_three = elementwise(lambda a: a + a, "float32", 3, count=96, offset=1)
    functions["three"] = lanes_of_three.with_attr("global_symbol", "three")
    modules = {name: kernels_of({name: f}, OPENCL) for name, f in functions.items()}
    together = {v: f for module in modules.values() for v, f in module.functions.items()}
    program = Program(emit_source(IRModule(together), OPENCL), ["-cl-opt-disable"])
    for name, function in functions.items():
        arrays = arrays_of(function)
        launch(program, modules[name], arrays)
        offset = len(arrays["A"]) - len(arrays["B"])
        expected = arrays["A"][offset:] * (2 if name == "three" else 1)
        assert (arrays["B"] == expected).all(), name


def test_shared_memory_of_a_size_known_at_the_launch():
    module, arrays = kernels_of({"rows": shared_rows}, OPENCL), arrays_of(shared_rows)
    expected = {key: array.copy() for key, array in arrays.items()}
    run(shared_rows, *expected.values(), 5)
    program = Program(emit_source(module, OPENCL))
    launch(program, module, arrays, {"n": np.int32(5)})
    np.testing.assert_allclose(arrays["B"], expected["B"], rtol=1e-6)


def threads(count, body):
    """`body` for each of `count` threads of a block."""
    index = tir.IterVar(None, Var("threadIdx.x", "int32"), 1, "threadIdx.x")
    return tir.AttrStmt(index, "thread_extent", const(count, "int32"), body(index.var))


def test_threads_may_share_a_byte():
    wide, narrow = decl_buffer((48,), "int32", "A"), decl_buffer((48,), "int4", "B")
    store = threads(48, lambda t: BufferStore(narrow, Cast("int4", BufferLoad(wide, [t])), [t]))
    load = threads(48, lambda t: BufferStore(wide, Cast("int32", BufferLoad(narrow, [t])), [t]))
    index = Ramp(Var("t", "int32") * 8, 1, 8)
    lanes = For(index.base.a, 0, 6, ForKind.SERIAL, BufferStore(
        wide, Cast("int32x8", BufferLoad(narrow, [index])), [index]))  # fmt: skip
    module = IRModule({
        "store": kernel([wide, narrow], store, "store"),
        "load": kernel([narrow, wide], load, "load"),
        "lanes": kernel([narrow, wide], lanes, "lanes"),
    })  # fmt: skip
    program = Program(emit_source(module, OPENCL))
    given = np.random.default_rng(0).integers(-8, 8, 48, "int32")
    packed = np.full(24, 0x5A, "u1")
    program.run("store", (1, 1, 1), (48, 1, 1), given, packed)
    dtype = DataType("int4")
    assert (unpack(packed, dtype, (48,)).astype("i4") == given).all()
    assert (packed == pack(given.astype(dtype.numpy()), dtype)).all()
    for name, block in (("load", 48), ("lanes", 1)):
        back = np.zeros(48, "int32")
        program.run(name, (1, 1, 1), (block, 1, 1), packed, back)
        assert (back == given).all()


def test_choices_share_what_their_condition_computes():
    a, b = decl_buffer((16,), "int32", "A"), decl_buffer((16,), "int32", "B")

    def body(t):
        half = (t * 5 + 3) // 2  # in the condition twice, in an arm once
        inside = tir.And(half - 4 < 8, half * 3 > half + 9)
        near = BufferLoad(a, [tir.FloorMod(half, 16)])
        value = tir.if_then_else(inside, near + near, tir.Let(Var("x", "int32"), t * t, t) - half)
        return BufferStore(b, value, [t])

    program = Program(emit_source(IRModule({"f": kernel([a, b], threads(16, body), "f")}), OPENCL))
    x, y = np.arange(16, dtype="i4") * 10, np.zeros(16, "i4")
    program.run("f", (1, 1, 1), (16, 1, 1), x, y)
    t = np.arange(16)
    half = (t * 5 + 3) // 2
    inside = (half - 4 < 8) & (half * 3 > half + 9)
    assert (y == np.where(inside, 2 * x[half % 16], t - half)).all() and 0 < inside.sum() < 16


def test_vectors_within_a_function():
    a, b = decl_buffer((32,), "float32", "A"), decl_buffer((32,), "float32", "B")
    first = Ramp(const(0, "int32"), 1, 8)
    var = Var("v", "float32x8")
    table = decl_buffer((8,), "float32", "table")
    constants = tensor(np.arange(8, dtype="float32"))
    value = BufferLoad(a, [first])
    body = SeqStmt([
        # vectors that overlap themselves: all is read before it is written
        BufferStore(a, BufferLoad(a, [Ramp(const(31, "int32"), -1, 32)]),
                    [Ramp(const(0, "int32"), 1, 32)]),
        BufferStore(a, BufferLoad(a, [Ramp(const(20, "int32"), -2, 8)]),
                    [Ramp(const(6, "int32"), 2, 8)]),
        LetStmt(var, value + Broadcast(const(1.0, "float32"), 8), SeqStmt([
            BufferStore(b, var * var, [first]),
            BufferStore(b, Shuffle([var], [const(7 - n, "int32") for n in range(8)]),
                        [Ramp(const(8, "int32"), 1, 8)]),
        ])),
        AllocateConst(table.data, "float32", [8], constants, BufferStore(
            b, BufferLoad(table, [first]), [Ramp(const(31, "int32"), -1, 8)])),
        Evaluate(Call("void", "tir.call_extern", (tir.StringImm("prefetch"), tir.address_of(
            BufferLoad(a, [const(3, "int32")])), const(1, "int32")))),
    ])  # fmt: skip
    program = Program(emit_source(IRModule({"f": kernel([a, b], body, "f")}), OPENCL))
    x, y = np.arange(32, dtype="f4"), np.zeros(32, "f4")
    given = x[::-1].copy()
    program.run("f", (1, 1, 1), (1, 1, 1), x, y)
    given[6:21:2] = given[20:5:-2].copy()
    assert (x == given).all()
    plus = x[:8] + 1
    assert (y[:8] == plus * plus).all() and (y[8:16] == plus[::-1]).all()
    assert (y[24:] == np.arange(8)[::-1]).all()
