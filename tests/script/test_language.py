"""Each item of the language: how it is written, and what it becomes."""

import math

import numpy
import pytest

import tilesmith as ts
from tilesmith import tir
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import tir as T

HEAD = (
    '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), '
    "h: T.handle, n: T.int32):\n"
)
SURROUNDINGS = {
    "N": numpy.int64(16), "F": numpy.float32(1.5), "SHAPE": (3, 4), "FLAG": True, "math": math,
    "double": lambda value: value * 2.0, "tir": tir, "args": (T.float32(1.0), T.float32(2.0)),
    "WIDTH": 4,
}  # fmt: skip

# What is written → what the text of the program then says (or the same, if that is left out).
CASES = [
    # values of the surrounding scope
    (
        "for i in range(N):\n    A[i] = F",
        "for i in range(T.int64(16)):\n        A[i] = T.float32(1.5)",
    ),
    ("C = T.match_buffer(h, SHAPE)\nC[0, 0] = math.pi", 'C: T.Buffer((3, 4), "float32")'),
    ("A[0] = double(B[0])", "A[0] = B[0] * T.float32(2.0)"),
    ("A[0] = tir.exp(B[0])", "A[0] = T.exp(B[0])"),
    ("A[0] = T.max(*args)", "A[0] = T.float32(2.0)"),
    ("if FLAG:\n    A[0] = 1.0\nelse:\n    A[1] = 2.0", "    A[0] = T.float32(1.0)"),
    ('T.evaluate(T.call_extern("int32", f"foo_{WIDTH}"))', 'T.call_extern("int32", "foo_4")'),
    # meta-programming
    ("x = T.meta_var(n * 2)\nA[x] = 1.0", "    A[n * 2] = T.float32(1.0)"),
    ("for j in [1, 2]:\n    A[j] = 1.0", "    A[1] = T.float32(1.0)\n    A[2] = T.float32(1.0)"),
    ("for j, v in zip([1, 2], [3.0, 4.0]):\n    A[j] = v", "    A[2] = T.float32(4.0)"),
    ("for j, v in enumerate((3.0, 4.0)):\n    A[j] = v", "    A[1] = T.float32(4.0)"),
    ("xs = T.meta_var([B[k] for k in range(3)])\nA[0] = xs[1]", "    A[0] = B[1]"),
    ('D = T.meta_var({"a": 5})\nA[D["a"]] = 1.0', "    A[5] = T.float32(1.0)"),
    # functions of Python on expressions
    ("A[min(n, 3)] = abs(B[max(n, 3, 4)])", "A[T.min(n, 3)] = T.fabs(B[T.max(T.max(n, 3), 4)])"),
    ("A[min(5, 3)] = abs(-2.0)", "A[3] = T.float32(2.0)"),
    ("A[0] = B[0] ** 2.0", "A[0] = T.pow(B[0], T.float32(2.0))"),
    ("A[0] = B[0] if n < 3 else 0.0", "A[0] = T.if_then_else(n < 3, B[0], T.float32(0.0))"),
    ("A[0] = B[0] if FLAG else 0.0", "    A[0] = B[0]"),
    # assignments
    (
        "A[0] += 1.0\nA[1] -= 2.0",
        "    A[0] = A[0] + T.float32(1.0)\n    A[1] = A[1] - T.float32(2.0)",
    ),
    ("A[0] *= B[0]\nA[1] /= 3.0", "    A[0] = A[0] * B[0]\n    A[1] = A[1] / T.float32(3.0)"),
    ("x = y = T.float32(1.0)\nA[0] = x + y", "x: T.float32 = T.float32(1.0)"),
    ("x, y = 1.0, 2.0\nA[0] = x + y", "y: T.float32 = T.float32(2.0)"),
    ("x: 'T.int64' = 3\nA[x] = 1.0", "x: T.int64 = T.int64(3)"),
    ("A[0:4] = B[4:8]", "A[0:4] = B[4:8]"),
    ("A[0:8:2] = B[0:4]", "A[0:8:2] = B[0:4]"),
    (
        "A.vstore([T.ramp(0, 1, 4)], B.vload([T.ramp(0, 1, 4)], predicate=T.Broadcast(n < 3, 4)))",
        "B.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(n < 3, 4))",
    ),
    (
        "A.vstore([T.ramp(0, 1, 4)], T.broadcast(1.0, 4), predicate=T.Broadcast(n < 3, 4))",
        "predicate=T.Broadcast(n < 3, 4)",
    ),
    # loops
    ("for i in range(2, n):\n    A[i] = 1.0", "for i in range(2, n):"),
    ("for i, j in T.grid((1, 4), 4):\n    A[i * 4 + j] = 1.0", "for i in range(1, 4):"),
    ("for i in T.parallel(4):\n    A[i] = 1.0", "for i in T.parallel(4):"),
    ("for i in T.vectorized(4):\n    A[i] = 1.0", "for i in T.vectorized(4):"),
    ("for i in T.unroll(4):\n    A[i] = 1.0", "for i in T.unroll(4):"),
    (
        'for i in T.thread_binding(0, 4, "threadIdx.x"):\n    A[i] = 1.0',
        'T.thread_binding(4, thread="threadIdx.x")',
    ),
    (
        'for i in T.serial(4, annotations={"a": [1, "b"]}):\n    A[i] = 1.0',
        'for i in T.serial(4, annotations={"a": [1, "b"]}):',
    ),
    ("while A[0] < 4.0:\n    A[0] += 1.0", "while A[0] < T.float32(4.0):"),
    ('x = T.launch_thread("blockIdx.x", 4)\nA[x] = 1.0', 'x = T.launch_thread("blockIdx.x", 4)'),
    (
        'x = T.env_thread("threadIdx.x")\nwith T.launch_thread(x, 16):\n    A[x] = 1.0',
        'x = T.launch_thread("threadIdx.x", 16)',
    ),
    # branches, conditions
    (
        "if not (n < 3) and (n > 1 or n == 0):\n    A[0] = 1.0",
        "if not n < 3 and (n > 1 or n == 0):",
    ),
    ("if n < 3:\n    A[0] = 1.0\nelif n < 4:\n    A[1] = 2.0", "    else:\n        if n < 4:"),
    ("if 0 <= n < 16:\n    A[n] = 1.0", "if 0 <= n and n < 16:"),
    ('assert n > 0, "positive"\nA[0] = 1.0', 'assert n > 0, "positive"'),
    ("assert n > 0\nA[0] = 1.0", 'assert n > 0, "assertion failed"'),
    # names for values and memory
    (
        "with T.LetStmt(n * 2) as x:\n    A[x] = 1.0\nA[0] = 1.0",
        "with T.LetStmt(n * 2) as x:",
    ),
    ("x = T.float32()\nwith T.let(x, 1.0):\n    A[0] = x", "x: T.float32 = T.float32(1.0)"),
    ("x = T.int32()\nA[T.Let(x + 1, where={x: n})] = 1.0", "A[T.Let(x + 1, where={x: n})]"),
    (
        'p = T.allocate([4], "float32", "local")\nP = T.decl_buffer((2, 2), data=p)\n'
        "P[0, 0] = A[0]",
        "P = T.decl_buffer((2, 2), data=p)",
    ),
    (
        'P = T.decl_buffer((4,), "int8", scope="shared")\nP[0] = 1',
        'P = T.decl_buffer((4,), "int8", scope="shared")',
    ),
    (
        'p = T.allocate_const([1, 2, 3], "int32", [3])\nT.evaluate(p)',
        'T.allocate_const([1, 2, 3], "int32", [3])',
    ),
    ('T.attr("key", "pragma", 1)\nA[0] = 1.0', 'T.attr("key", "pragma", 1)'),
    ('with T.realize(A[0:4], ""):\n    A[0] = 1.0', 'T.realize(A[0:4], "")'),
    ("T.prefetch(A, [T.Range(0, 4)])", "T.prefetch(A, [T.Range.from_min_extent(0, 4)])"),
    # blocks
    (
        'for i in range(16):\n    with T.block("b"):\n        vi = T.axis.S(16, i)\n'
        '        T.where(i < n)\n        T.block_attr({"a": {"b": 1}})\n        A[vi] = 1.0',
        'T.block_attr({"a": {"b": 1}})',
    ),
    (
        'for i in range(4):\n    with T.block("b"):\n        v = T.axis.spatial(4, i)\n'
        '        M = T.match_buffer(A[v * 4 : v * 4 + 4], (2, 2), strides=["s", 1], '
        "offset_factor=4, align=16)\n        M[0, 0] = 1.0",
        'strides=("s", 1), align=16, offset_factor=4)',
    ),
    (
        'with T.block("b"):\n    v = T.axis.spatial(1, 0)\n    A[v] = 1.0',
        "v = T.axis.spatial(1, 0)",
    ),
    ('with T.block("x"), T.init():\n    A[0] = 1.0', "with T.init():"),
    (
        'for i in T.serial(T.int64(16)):\n    with T.sblock("b"):\n'
        "        v = T.axis.spatial(T.int64(16), i)\n        A[v] = 1.0",
        "v = T.axis.spatial(T.int64(16), i)",
    ),
    # types
    ('C = T.match_buffer(h, (4,), "handle")\nC[0] = h', 'T.match_buffer(h, (4,), "handle")'),
    (
        'A[0] = B[0].astype("float16").astype("float32")',
        'T.Cast("float32", T.Cast("float16", B[0]))',
    ),
    ('A[0] = T.float32("-inf")\nA[1] = T.infinity("float32")', 'A[0] = T.float32("-inf")'),
    ("A[0] = T.float32(n) + T.cast(n, 'float32')", 'T.Cast("float32", n) + T.Cast("float32", n)'),
    # the rest
    ('"""What it does."""\nA[0] = 1.0', "    A[0] = T.float32(1.0)"),
    ("pass", "T.evaluate(0)"),
    ("return n", "return n"),
    ("nonlocal double\nglobal N\nA[0] = 1.0", "    A[0] = T.float32(1.0)"),
]


@pytest.mark.parametrize(
    ("lines", "expected"), CASES, ids=[lines.split("\n")[0] for lines, _ in CASES]
)
def test_item(lines, expected):
    text = HEAD + "\n".join(["    " + line for line in lines.split("\n")])
    function = ts.script.from_source(text, SURROUNDINGS)
    again = function.script()
    assert expected in again, again
    assert_structural_equal(ts.script.from_source(again), function)


def test_sizes_of_parameters():
    """A size is a parameter, a variable of the surroundings, or made in the function."""
    size = tir.Var("n", "int32")
    text = "@T.prim_func\ndef f({}):\n    for i in range(n):\n        A[i] = 1.0"
    first = ts.script.from_source(text.format('n: T.int32, A: T.Buffer((n,), "float32")'))
    assert first.buffer_map[first.params[1]].shape[0] is first.params[0]
    second = ts.script.from_source(text.format('A: T.Buffer((n,), "float32")'), {"n": size})
    assert second.buffer_map[second.params[0]].shape[0] is size
    for function in (first, second):
        assert_structural_equal(ts.script.from_source(function.script()), function)


FACTOR = 3.0


@T.inline
def scaled(buffer, i, by=2.0):
    buffer[i] = buffer[i] * by * FACTOR


@T.macro(hygienic=False)
def filled(buffer, *values):
    for j, value in enumerate(values):
        buffer[j] = value + offset


def test_macros():
    @T.prim_func
    def function(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        offset: T.float32 = A[0]
        scaled(A, 1)
        scaled(B, i=2, by=5.0)
        filled(B, 1.0, 2.0)

    text = function.script()
    assert "A[1] = A[1] * T.float32(2.0) * T.float32(3.0)" in text
    assert "B[2] = B[2] * T.float32(5.0) * T.float32(3.0)" in text
    assert "B[1] = T.float32(2.0) + offset" in text


def test_private_functions_and_attributes_of_modules():
    @I.ir_module
    class Module:
        I.module_attrs({"a": 1})
        N = 4

        @T.prim_func(private=True)
        def part(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            Module.part(A)
            for i in range(N):
                A[i] = 2.0

    assert Module["part"].attrs.get("global_symbol") is None
    assert Module["main"].attrs["global_symbol"] == "main" and Module.attrs["a"] == 1
    assert "cls.part(A.data)" in Module.script()
    assert_structural_equal(ts.script.from_source(Module.script()), Module)


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("1st", "lambda"), ("T", "cls", "I")])
def test_names_of_functions_that_are_not_pythons(names):
    x = tir.Var("x", "int32")
    variables = [ts.ir.GlobalVar(name) for name in names]
    function = tir.PrimFunc([x], tir.Evaluate(tir.Call("void", variables[-1], (x,))))
    module = ts.IRModule(dict.fromkeys(variables, function))
    again = ts.script.from_source(module.script())
    assert sorted(variable.name_hint for variable in again.functions) == sorted(names)
    assert_structural_equal(again, module)


def test_functions_that_give_a_value():
    @I.ir_module
    class Caller:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = Caller.twice(A[i]) + Caller.twice(i)

        @T.prim_func(private=True)
        def twice(x: T.int32) -> T.int32:
            T.ret(x * 2)

    again = ts.script.from_source(Caller.script())
    assert_structural_equal(Caller, again)
    built = ts.build(Caller, target="llvm")
    values = ts.nd.array(numpy.arange(4, dtype="int32"))
    built["main"](values)
    assert values.numpy().tolist() == [0, 4, 8, 12]
