"""JSON: everything comes back, shared nodes stay shared, damaged texts are typed errors."""

import json

import numpy as np
import pytest

from tests.tir.sample_programs import elementwise, matmul, module
from tilesmith.ir import (
    Add,
    Call,
    GlobalVar,
    IRModule,
    Let,
    Op,
    PointerType,
    PrimType,
    Ramp,
    Range,
    Select,
    Shuffle,
    SizeVar,
    Span,
    StringImm,
    Var,
    assert_structural_equal,
    const,
    load_json,
    save_json,
    structural_equal,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ArtifactError, TypeMismatchError
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    While,
    call_packed,
    decl_buffer,
    stmt_seq,
)
from tilesmith.tir import sum as tir_sum


def lowered():
    """A function with every kind of statement that lowering leaves."""
    data = Var("data", PointerType(PrimType("float32"), "global"))
    size, i, x = SizeVar("n", "int32"), Var("i", "int32"), Var("x", "float32")
    flat = decl_buffer((size,), name="flat", data=data)
    local = Var("local", PointerType(PrimType("float32"), "local"))
    view = decl_buffer((8,), name="view", data=local)
    table = Var("table", PointerType(PrimType("int32"), "global"))
    thread = IterVar((0, 4), "tx", IterVar.ThreadIndex, "threadIdx.x")
    lanes = Ramp(i, 1, 4)
    body = stmt_seq(
        BufferStore(
            flat, BufferLoad(flat, [lanes], Shuffle([const(True, "boolx4")], [0, 1, 2, 3])), [lanes]
        ),
        LetStmt(x, flat[i], IfThenElse(x < 1.0, BufferStore(flat, x, [0]), Evaluate(0))),
        AssertStmt(i < size, "too far", Evaluate(call_packed("f", 1, flat))),
        While(
            flat[0] < 3.0, BufferStore(flat, flat[0] + Let(x, 1.0, Select(x < 2.0, x, 2.0)), [0])
        ),
        AttrStmt(thread, "thread_extent", 4, Evaluate(thread.var)),
        Allocate(
            local, "float32", [8], True, DeclBuffer(view, BufferStore(view, 1.0, [0])), {"k": 1}
        ),
        AllocateConst(
            table, "int32", [3], np.array([1, 2, 3], "int32"), Evaluate(Var("q", "int32"))
        ),
    )
    loop = For(i, 0, size, ForKind.UNROLLED, body, None, {"pragma_unroll_explicit": 0})
    return PrimFunc([data, size], loop, attrs={"global_symbol": "k", "nested": (1, {"a": 2.5})})


def matched():
    a = decl_buffer((16, 16), name="A")
    tile = decl_buffer(
        (4, 4), name="tile", strides=[Var("s0", "int32"), Var("s1", "int32")],
        elem_offset=Var("offset", "int32"),
    )  # fmt: skip
    vi = IterVar((0, 4), "vi", 0)
    region = BufferRegion(a, [Range.from_min_extent(vi.var * 4, 4), Range.from_min_extent(0, 4)])
    temporary = decl_buffer((4,), name="temporary", scope="local")
    block = Block(
        [vi], [], [region], "b", BufferStore(tile, 1.0, [0, 0]), None, [temporary],
        [MatchBufferRegion(tile, region)], {"note": "x"},
    )  # fmt: skip
    i = Var("i", "int32")
    return PrimFunc([a], For(i, 0, 4, 0, BlockRealize([i], i < 3, block)))


@pytest.mark.parametrize(
    "node", [elementwise(), elementwise(None), matmul(), matched(), module(elementwise(), matmul())]
)
def test_round_trip(node):
    text = save_json(node)
    again = load_json(text)
    assert_structural_equal(node, again)
    assert str(node) == str(again)
    assert save_json(again) == text


def test_round_trip_of_lowered_code():
    func = lowered()
    again = load_json(save_json(func))
    assert_structural_equal(func, again, map_free_vars=True)
    assert save_json(load_json(save_json(again))) == save_json(again)


def test_names_spans_and_identity_survive():
    span = Span("file.py", 3, 3, 5, 9)
    x = Var("x", "int32", span)
    shared = x + 1
    first, second = load_json(save_json((Add(shared, shared), x)))
    assert first.a is first.b
    assert first.a.a is second
    assert second.name == "x" and structural_equal(second.span, span)


def test_depth_is_no_problem():
    value = Var("x", "int32")
    for _ in range(20_000):
        value = Add(value, 1)
    assert structural_equal(load_json(save_json(value)), value, map_free_vars=True)


def test_operators_are_found_again():
    call = load_json(save_json(Call("float32", "tir.exp", (const(1.0, "float32"),))))
    assert call.op is Op.get("tir.exp")


def test_calls_refer_to_the_functions_of_the_module():
    callee = elementwise(symbol="callee")
    variable = GlobalVar("callee")
    caller = PrimFunc([], Evaluate(Call("void", variable, ())), attrs={"global_symbol": "main"})
    mod = load_json(save_json(IRModule({variable: callee, "main": caller})))
    assert mod["main"].body.value.op is mod.get_global_var("callee")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, -(2**80), 0.1, float("inf"), float("-inf"), "text", b"\x00\xff",
        (1, (2.5, "x"), None), {"k": (1, {"n": True})}, DataType("float16x4"),
    ],
)  # fmt: skip
def test_plain_values(value):
    again = load_json(save_json(value))
    assert again == value and type(again) is type(value)


def test_nan():
    assert np.isnan(load_json(save_json(float("nan"))))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float16", "uint64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_arrays(dtype, shape):
    array = (np.arange(np.prod(shape)).reshape(shape) * 3).astype(DataType(dtype).numpy())
    again = load_json(save_json((array, array)))
    assert again[0] is again[1]
    assert again[0].dtype == array.dtype and again[0].shape == array.shape
    np.testing.assert_array_equal(again[0].astype("float64"), array.astype("float64"))


def test_tensors_of_the_runtime():
    from tilesmith.runtime.ndarray import NDArray, array

    again = load_json(save_json(array(np.ones((2, 2), "float32"))))
    assert isinstance(again, NDArray)
    np.testing.assert_array_equal(again.numpy(), np.ones((2, 2)))


def test_reductions():
    k = IterVar((0, 8), "k", IterVar.CommReduce)
    x = Var("x", "float32")
    value = tir_sum(x * k.var.astype("float32"), axis=k, where=k < 3)
    assert structural_equal(load_json(save_json(value)), value, map_free_vars=True)


def test_what_cannot_be_saved_is_an_error():
    with pytest.raises(TypeMismatchError, match="object"):
        save_json(elementwise().with_attr("x", object()))


def test_a_class_can_register_itself():
    from tilesmith.ir import register_json_value

    class Size:
        def __init__(self, value):
            self.value = value

    register_json_value("tests.Size", Size, lambda size: size.value, Size)
    assert load_json(save_json(elementwise().with_attr("x", Size(7)))).attrs["x"].value == 7


def damage(text):
    document = json.loads(text)
    yield "no json", text[: len(text) // 2]
    yield "other json", "[1, 2]"
    yield "other format", json.dumps({**document, "format": "x"})
    yield "later version", json.dumps({**document, "version": 99})
    yield "missing nodes", json.dumps({k: v for k, v in document.items() if k != "nodes"})
    yield "unknown class", text.replace("tir.PrimFunc", "tir.Prim")
    yield "unknown package", text.replace("tir.PrimFunc", "os.system")
    yield "dangling node", json.dumps({**document, "root": {"n": 10_000}})
    yield "negative node", json.dumps({**document, "root": {"n": -1}})
    yield "unknown letter", json.dumps({**document, "root": {"q": 1}})
    yield "two letters", json.dumps({**document, "root": {"n": 1, "m": []}})
    yield "missing field", json.dumps({**document, "nodes": [["tir.Var", []], *document["nodes"]]})
    yield "wrong dtype", text.replace("float32", "float33")
    yield "unknown operator", json.dumps({**document, "nodes": [["ir.Op", ["tir.nothing"]]]})


@pytest.mark.parametrize("case", list(damage(save_json(elementwise()))), ids=lambda case: case[0])
def test_damaged_texts(case):
    with pytest.raises(ArtifactError):
        load_json(case[1])


def test_text_constants():
    assert load_json(save_json(StringImm("a\n\u1234"))).value == "a\n\u1234"
