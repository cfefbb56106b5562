"""What the parser understands, and what it makes of it."""

import linecache
import textwrap

import numpy
import pytest

import tilesmith as ts
from tilesmith import ir, tir
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import ScriptError

GLOBAL_EXTENT = 8


def scale(value, factor):
    """A Python function that a script calls while it is parsed."""
    return value * factor


def make(extent, dtype="float32"):
    """A function made from the variables around it."""

    @T.prim_func
    def filled(A: T.Buffer((extent, GLOBAL_EXTENT), dtype)):
        for i, j in T.grid(extent, GLOBAL_EXTENT):
            A[i, j] = scale(T.Cast(dtype, i), 2)

    return filled


def test_variables_of_the_surroundings():
    function = make(5)
    (buffer,) = function.buffers
    assert [int(size) for size in buffer.shape] == [5, 8]
    assert function.attrs["global_symbol"] == "filled"
    store = function.body.body.body
    assert isinstance(store.value, tir.Mul)
    assert make(3, "float16").buffers[0].dtype == "float16"


def test_module_in_a_function():
    extent = 6

    @I.ir_module
    class Local:
        @T.prim_func
        def first(A: T.Buffer((extent,), "float32")):
            for i in range(extent):
                A[i] = 1.0

        @T.prim_func(private=True)
        def second(A: T.Buffer((extent,), "float32")):
            for i in range(extent):
                A[i] = 2.0

    assert isinstance(Local, ir.IRModule)
    assert [variable.name_hint for variable in Local.get_global_vars()] == ["first", "second"]
    assert "global_symbol" not in Local["second"].attrs
    assert int(Local["first"].body.extent) == 6


def test_two_classes_of_one_name():
    @I.ir_module
    class Same:
        @T.prim_func
        def f(A: T.Buffer((1,), "float32")):
            A[0] = 1.0

    first = Same

    @I.ir_module
    class Same:
        @T.prim_func
        def f(A: T.Buffer((2,), "float32")):
            A[0] = 1.0

    assert int(first["f"].buffers[0].shape[0]) == 1
    assert int(Same["f"].buffers[0].shape[0]) == 2


def test_decorator_over_several_lines():
    @I.ir_module(
        check_well_formed=False,
    )
    # a remark
    class Loose:
        @T.prim_func
        def f(A: T.Buffer((1,), "float32")):
            free = T.int32()
            A[free] = 2.0

    assert isinstance(Loose["f"].body, tir.BufferStore)
    with pytest.raises(ts.TilesmithError, match="'free' is used; it is bound nowhere") as caught:
        ts.script.from_source(
            Loose.script().replace("# free", "#"), {"free": Loose["f"].body.indices[0]}
        )
    assert "check_well_formed=False" in str(caught.value)


def test_class_that_is_handed_over_later():
    class Later:
        @T.prim_func
        def f(A: T.Buffer((3,), "float32")):
            A[0] = 1.0

    class Plain:
        pass

    with pytest.raises(ts.TilesmithError, match="source text|no decorator|define"):
        ts.script.from_source("class Later:\n    def f(self):\n        pass\n")
    assert isinstance(Later.f, tir.PrimFunc)
    assert not ts.script.ir_module(Plain).functions


def test_decorator_in_a_plain_class():
    class Holder:
        @T.prim_func
        def function(A: T.Buffer((1,), "float32")):
            A[0] = 1.0

    assert isinstance(Holder.function, tir.PrimFunc)


def test_function_with_from_source():
    def plain(A: T.Buffer((4,), "float32")):
        A[0] = 1.0

    with pytest.raises(ts.TilesmithError, match="no decorator"):
        ts.script.from_source(plain)


def test_prompt_and_notebook():
    """Cells and prompts are found through linecache, one after the other in one namespace."""
    namespace = {"T": T, "I": I, "ts": ts}
    cells = (
        "N = 4\n",
        "@T.prim_func\ndef cell(A: T.Buffer((N,), 'float32')):\n    A[N - 1] = 1.0\n",
        "@ts.script.ir_module\nclass Mod:\n    @T.prim_func\n"
        "    def f(A: T.Buffer[(N,), 'int64']):\n        A[0] = 1\n",
    )
    for number, text in enumerate(cells):
        name = f"<cell {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), namespace)
    assert int(namespace["cell"].body.indices[0]) == 3
    assert namespace["Mod"]["f"].body.value.dtype == "int64"


def test_without_source():
    namespace = {"T": T}
    with pytest.raises(ts.TilesmithError, match="source text of '<nowhere>' is not available"):
        exec(compile("@T.prim_func\ndef f():\n    pass\n", "<nowhere>", "exec"), namespace)


def parse(body, head='A: T.Buffer((16,), "float32"), n: T.int32', **extra_vars):
    text = f"@T.prim_func\ndef f({head}):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return ts.script.from_source(text, extra_vars)


def test_literals_take_the_dtype_of_the_buffer():
    function = parse(
        "A[0] = 1\nB[0] = 2\n", 'A: T.Buffer((1,), "float16"), B: T.Buffer((1,), "int8")'
    )
    first, second = function.body.seq
    assert isinstance(first.value, tir.FloatImm)
    assert first.value.dtype == "float16"
    assert second.value.dtype == "int8"


def test_python_conditions_choose_while_parsing():
    function = parse("if flag:\n    A[0] = 1.0\nelse:\n    A[1] = 2.0\n", flag=False)
    assert int(function.body.indices[0]) == 1


def test_python_iterables_are_written_out():
    function = parse("for k, value in enumerate(items):\n    A[k] = value\n", items=[1.0, 2.0, 3.0])
    assert [statement.value.value for statement in function.body.seq] == [1.0, 2.0, 3.0]


def test_comprehensions_lambdas_and_texts():
    function = parse(
        """
        parts = T.meta_var([A[k] * float(k) for k in (1, 2, 3) if k != 2])
        pick = lambda k: parts[k]
        T.call_extern("int32", f"name_{len(parts):03d}", pick(0), pick(1))
        T.call_extern("int32", *["x", 1], **{})
        """
    )
    assert function.body.seq[0].value.args[0].value == "name_002"


def test_chained_comparisons_and_logic():
    function = parse("if 0 <= n < 5 or not n == 7 and n > 2:\n    A[0] = 1.0\n")
    condition = function.body.condition
    assert str(condition) == "0 <= n and n < 5 or not n == 7 and n > 2"
    assert isinstance(condition.a.a, tir.LE)


def test_order_of_operands_is_kept():
    condition = parse("if 3 < n:\n    A[0] = 1.0\n").body.condition
    assert isinstance(condition, tir.LT)
    assert isinstance(condition.b, tir.Var)


def test_operators_fold_and_constructors_do_not():
    function = parse("T.evaluate(n + 0)\nT.evaluate(T.Add(n, 0))\nT.evaluate(2 * n * 3)\n")
    folded, kept, product = [statement.value for statement in function.body.seq]
    assert folded is function.params[1]
    assert isinstance(kept, tir.Add)
    assert isinstance(product, tir.Mul)


def test_assignments_bind_variables():
    function = parse("x = A[0] + 1.0\ny: T.int64 = T.Cast('int64', n)\nA[1] = x\n")
    assert isinstance(function.body, tir.LetStmt)
    assert function.body.var.name == "x"
    assert function.body.body.var.dtype == "int64"


def test_regions_are_completed():
    function = parse(
        """
        for i in range(16):
            with T.block("b"):
                vi = T.axis.spatial(16, i)
                T.writes(A[vi])
                A[vi] = A[vi] + 1.0
        """
    )
    root = function.body.block
    assert root.name_hint == "root" and not root.reads and not root.writes
    block = root.body.body.block
    assert str(block.reads[0]) == "A[vi]"
    assert str(block.writes[0]) == "A[vi]"


def test_allocated_buffers_go_to_the_block_around():
    function = parse(
        """
        X = T.alloc_buffer((4,), "float32")
        with T.block("outer"):
            Y = T.alloc_buffer((4,), "float32", scope="local")
            Y[0] = X[0]
        """
    )
    assert [b.name for b in function.body.block.alloc_buffers] == ["X"]
    assert [b.name for b in function.body.block.body.block.alloc_buffers] == ["Y"]


def test_a_block_alone_is_the_root():
    function = parse('with T.block("root"):\n    A[0] = 1.0\n')
    assert function.body.block.name_hint == "root"
    assert isinstance(function.body.block.body, tir.BufferStore)
    assert not function.body.block.writes


def test_comm_reducer_and_index_map():
    function = parse(
        """
        T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope",
            T.reinterpret("handle", T.uint64(0)))
        A[0] = 1.0
        """
    )
    reducer = function.body.node
    assert isinstance(reducer, tir.CommReducer)
    assert isinstance(reducer.result[0], tir.Add)


def test_return_is_ret():
    function = parse("return n + 1\n")
    assert function.body.value.op.name == "tir.ret"


def test_return_type():
    text = "@T.prim_func\ndef f(n: T.int32) -> T.int32:\n    return n\n"
    function = ts.script.from_source(text)
    assert function.ret_type.dtype == "int32"
    assert ts.script.from_source(text.replace("-> T.int32", "-> None")).ret_type.fields == ()


def test_imports_and_other_names_of_dialects():
    text = (
        "from tilesmith.script import tir as TT, ir as II\n\n@II.ir_module\nclass M:\n"
        "    @TT.prim_func\n    def f(A: TT.Buffer((4,))):\n        A[0] = TT.exp(A[1])\n"
    )
    module = ts.script.from_source(text)
    again = ts.script.from_source(
        module.script(tir_prefix="TT", ir_prefix="II"), {"TT": T, "II": I}
    )
    assert_structural_equal(module, again)


def test_large_constants():
    values = numpy.arange(600, dtype="float32").reshape(20, 30)
    function = parse(
        'c = T.allocate_const(values, "float32", [20, 30])\nA[0] = 1.0\n', values=values
    )
    text = function.script()
    assert 'metadata["tir.AllocateConst"][0]' in text
    again = ts.script.from_source(text)
    numpy.testing.assert_array_equal(again.body.data_or_idx, values)
    assert again.script() == text
    assert len(str(function)) < 600
    assert "left out" in str(function)


def test_large_constants_are_parsed_fast():
    import time

    values = numpy.zeros(5_000_000, dtype="float32")
    text = parse('c = T.allocate_const(v, "float32", [5000000])\nA[0] = 1.0\n', v=values).script()
    start = time.process_time()
    again = ts.script.from_source(text)
    assert time.process_time() - start < 5  # of CPU time: not element by element
    assert again.body.data_or_idx.shape == (5_000_000,)


@pytest.mark.parametrize("hygienic", [True, False])
def test_macros(hygienic):
    offset = 100

    @T.macro(hygienic=hygienic)
    def add_to(target, index, amount=1.0):
        target[index] = target[index] + amount + offset

    @T.prim_func
    def caller(A: T.Buffer((4,), "float32")):
        offset = T.meta_var(7)
        add_to(A, 1, amount=2.0)
        add_to(A, 2)

    first = caller.body.seq[0].value
    assert float(first.b.value) == (100.0 if hygienic else 7.0)


def test_macro_with_a_value_and_inside():
    @T.inline
    def square(value):
        return value * value

    @T.prim_func
    def caller(A: T.Buffer((4,), "float32")):
        @T.macro
        def store(k):
            A[k] = square(A[k])

        store(2)

    assert str(caller.body).endswith("A[2] = A[2] * A[2]")
    with pytest.raises(ts.TilesmithError, match="called outside of a script"):
        square(3)


@pytest.mark.parametrize(
    "word",
    """abs acos add_me ceildiv exp floor if_then_else likely max min pow round sigmoid tvm_tuple
    float32 int8x16 uint64 float8_e4m3fn e4m3_float8 boolean void handle Ramp Broadcast Select Let
    ptx_mma simdgroup_load call_packed vscale env_thread buffer_decl target index_map""".split(),
)
def test_words_exist(word):
    assert hasattr(T, word) is (word != "add_me")


def test_buffer_spellings():
    for buffer in (
        T.Buffer((4, 4), "int64"),
        T.Buffer[(4, 4), "int64"],
        T.buffer_decl((4, 4), "int64"),
    ):
        assert buffer.dtype == "int64"
        assert [int(size) for size in buffer.shape] == [4, 4]
    assert len(T.Buffer[(4, 4)].shape) == 2
    assert len(T.Buffer[4].shape) == 1


@pytest.mark.parametrize(
    ("written", "problem"),
    [("privat=True", "did you mean 'private'"), ("is_private=True", None), ("private=True", None)],
)
def test_options_of_functions(written, problem):
    text = f"@T.prim_func({written})\ndef f(x: T.int32):\n    T.evaluate(x)\n"
    if problem is None:
        assert "global_symbol" not in ts.script.parse(text).attrs
        return
    with pytest.raises(ScriptError, match=rf"(?s)has no option.*<script.*{problem}"):
        ts.script.parse(text)
