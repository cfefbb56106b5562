"""The text of nodes: names, marks, options, what is broken or unknown."""

import numpy
import pytest

import tilesmith as ts
from tilesmith import ir, tir
from tilesmith.ir import child, data, printing
from tilesmith.ir.object_path import ObjectPath
from tilesmith.support.errors import ConfigError


def variable(name, dtype="int32"):
    return tir.Var(name, dtype)


x, y = variable("x"), variable("y")
f = variable("f", "float32")
A = tir.decl_buffer((16, 16), "float32", "A")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (x + 1, "x + 1"),
        (tir.Add(x, 0), "T.Add(x, 0)"),
        (tir.Add(1, 2), "T.Add(1, 2)"),
        (tir.FloorDiv(0, 0), "T.FloorDiv(0, 0)"),
        ((x + 1) * (y - (x - 2)), "(x + 1) * (y - (x - 2))"),
        (x // 2 % 3, "x // 2 % 3"),
        (x * -1, "x * -1"),
        (tir.EQ(tir.LT(x, y), tir.LT(y, x)), "(x < y) == (y < x)"),
        (tir.And(tir.Or(x < 1, y < 1), tir.Not(x < y)), "(x < 1 or y < 1) and not x < y"),
        (tir.And(x < 1, tir.And(y < 1, x < y)), "x < 1 and (y < 1 and x < y)"),
        (tir.const(True, "bool"), "T.bool(True)"),
        (tir.const(5, "int64"), "T.int64(5)"),
        (tir.const(-5, "int32"), "-5"),
        (tir.const(2.0, "float32"), "T.float32(2.0)"),
        (tir.const(0.1, "float32"), "T.float32(0.10000000000000001)"),
        (tir.const(float("-inf"), "float64"), 'T.float64("-inf")'),
        (tir.StringImm('a "b"\n\\'), 'a "b"\n\\'),
        (tir.Max(x, y), "T.max(x, y)"),
        (tir.Max(x, x), "T.Max(x, x)"),
        (tir.Cast("int64", x), 'T.Cast("int64", x)'),
        (tir.truncdiv(x, y), "T.Div(x, y)"),
        (tir.exp(f), "T.exp(f)"),
        (tir.call_extern("int32", "g", x, "s"), 'T.call_extern("int32", "g", x, "s")'),
        (tir.if_then_else(x < 1, f, 0.0), "T.if_then_else(x < 1, f, T.float32(0.0))"),
        (A[x, y + 1], "A[x, y + 1]"),
        (A[0:4, x], "A[0:4, x]"),
        (tir.Ramp(x, 1, 4), "T.Ramp(x, 1, 4)"),
        (ir.Range(2, 4), "T.Range(2, 4)"),
        (tir.IterVar((0, 4), "k", 2), 'T.iter_var(k, T.Range(0, 4), "CommReduce", "")'),
        (ir.PointerType(ir.PrimType("int8"), "shared"), 'T.handle("int8", "shared")'),
        (ir.GlobalVar("main"), 'I.GlobalVar("main")'),
        (ir.Op.get("tir.exp"), 'I.Op("tir.exp")'),
    ],
)
def test_expressions(expression, text):
    assert str(expression) == text


def test_verbose_expressions():
    """Definitions of what is used are written on demand; a statement always has them."""
    assert (x + 1).script() == "x + 1"
    assert (x + y).script(verbose_expr=True) == "x = T.int32()\ny = T.int32()\nx + y"
    assert A[x, 0].script(verbose_expr=True).startswith("A = T.Buffer((16, 16))\nx = T.int32()\n")
    assert str(tir.Evaluate(x)) == "x = T.int32()\nT.evaluate(x)"


def test_repr_is_the_text():
    assert repr([x, x + 1, tir.const(1, "int64"), A]) == "[x, x + 1, T.int64(1), A]"


def test_names_are_kept_and_numbered_on_a_clash():
    loops = tir.For(inner := variable("i"), 0, 4, 0, tir.Evaluate(inner))
    loops = tir.For(outer := variable("i"), 0, outer_extent := variable("i"), 0, tir.SeqStmt(
        (tir.Evaluate(outer), loops, tir.For(variable("i"), 0, 2, 0, tir.Evaluate(1)))
    ))  # fmt: skip
    assert outer_extent is not outer
    assert str(loops) == (
        "i = T.int32()\n"
        "for i_1 in range(i):\n"
        "    T.evaluate(i_1)\n"
        "    for i_2 in range(4):\n"
        "        T.evaluate(i_2)\n"
        "    for i_2 in range(2):\n"
        "        T.evaluate(1)"
    )


@pytest.mark.parametrize(
    ("hint", "name"),
    [("a.b", "a_b"), ("for", "for_1"), ("T", "T_1"), ("1x", "v1x"), ("", "v"), ("cls", "cls_1")],
)
def test_names_that_python_does_not_take(hint, name):
    assert str(variable(hint)) == name


def test_order_of_printing_does_not_matter_for_names():
    function = tir.PrimFunc([x, y], tir.Evaluate(x + y))
    assert function.script() == function.script()


def test_free_things_are_defined_where_they_are_needed():
    assert str(tir.BufferStore(A, f, (x, 0))).split("\n") == [
        "A = T.Buffer((16, 16))",
        "f = T.float32()",
        "x = T.int32()",
        "A[x, 0] = f",
    ]


def loop(body):
    return tir.For(variable("i"), 0, 4, 0, body)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (loop(tir.Evaluate(x)), "for i in range(4):\n    x = T.int32()\n    T.evaluate(x)"),
        (
            tir.SeqStmt([loop(tir.Evaluate(x)), tir.Evaluate(x)]),
            "x = T.int32()\nfor i in range(4):\n    T.evaluate(x)\nT.evaluate(x)",
        ),
        (
            loop(tir.SeqStmt([tir.Evaluate(0), loop(tir.Evaluate(x)), tir.Evaluate(x + y)])),
            "for i in range(4):\n    T.evaluate(0)\n    x = T.int32()\n"
            "    for i_1 in range(4):\n        T.evaluate(x)\n"
            "    y = T.int32()\n    T.evaluate(x + y)",
        ),
        (
            tir.IfThenElse(f < 1.0, tir.Evaluate(1), tir.Evaluate(x)),
            "f = T.float32()\nif f < T.float32(1.0):\n    T.evaluate(1)\nelse:\n"
            "    x = T.int32()\n    T.evaluate(x)",
        ),
        (
            tir.SeqStmt(
                [tir.IfThenElse(f < 1.0, tir.Evaluate(1), tir.Evaluate(x)), tir.Evaluate(x)]
            ),
            "f = T.float32()\nx = T.int32()\nif f < T.float32(1.0):\n    T.evaluate(1)\nelse:\n"
            "    T.evaluate(x)\nT.evaluate(x)",
        ),
    ],
)
def test_free_names_belong_to_the_innermost_block_around_all_uses(statement, text):
    assert str(statement) == text


def test_free_sizes_precede_the_buffers_that_need_them():
    n = variable("n")
    D = tir.decl_buffer((n,), "float32", "D")
    inner = loop(tir.BufferStore(D, 1.0, [0]))
    text = str(tir.SeqStmt([inner, tir.BufferStore(D, 2.0, [0])]))
    assert text.split("\n")[:3] == ["n = T.int32()", "D = T.Buffer((n,))", "for i in range(4):"]


def test_free_names_of_functions_are_defined_inside():
    function = tir.PrimFunc([x], tir.Evaluate(x + y))
    assert str(function).endswith("def main(x: T.int32):\n    y = T.int32()\n    T.evaluate(x + y)")
    shared = str(ir.IRModule({"f": function, "g": tir.PrimFunc([], tir.Evaluate(y))}))
    assert "# y = T.int32()\n" in shared.split("@I")[0]


def test_own_variables_of_buffers():
    """Strides and offsets that only a buffer has are called after it."""
    s, o = variable("s"), variable("o")
    B = tir.decl_buffer((16, 16), "int8", "B", strides=[s, 1], elem_offset=o, offset_factor=4)
    assert B[s, o].script(verbose_expr=True).split("\n") == [
        'B = T.Buffer((16, 16), "int8", strides=("s", 1), offset_factor=4)',
        "B[B.strides[0], B.elem_offset]",
    ]
    handle = tir.Var("h", "handle")
    function = tir.PrimFunc([handle], tir.Evaluate(B[s, o]), buffer_map={handle: B})
    assert 'B = T.match_buffer(h, (16, 16), "int8", strides=("s", 1), offset_factor=4)' in str(
        function
    )
    ir.assert_structural_equal(ts.script.from_source(function.script()), function)
    known = tir.PrimFunc([handle, s, o], tir.Evaluate(B[s, o]), buffer_map={handle: B})
    assert "strides=(s, 1), elem_offset=o" in str(known)
    ir.assert_structural_equal(ts.script.from_source(known.script()), known)


def test_modules_are_printed_in_order_of_their_names():
    functions = {name: tir.PrimFunc([], tir.Evaluate(0)) for name in ("main", "b", "a")}
    text = str(ir.IRModule(functions, attrs={"z": 1, "k": 2}))
    assert [line.split("(")[0].strip() for line in text.split("\n") if "def " in line] == [
        "def a", "def b", "def main"
    ]  # fmt: skip
    assert '    I.module_attrs({"k": 2, "z": 1})\n    @T.prim_func' in text


def test_reductions():
    k, value = tir.IterVar((0, 4), "k", 2), tir.Var("v", "int32")
    reducer = tir.CommReducer([x], [y], [x + y], [tir.const(0)])
    text = str(tir.Reduce(reducer, [value], [k], tir.const(True), 0))
    assert text == (
        "T.reduce(T.comm_reducer(lambda x, y: x + y, [0]), source=[v], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 4), "CommReduce", "")], condition=T.bool(True), '
        "value_index=0)"
    )


class Unknown(ir.PrimExpr, key="test.Unknown"):
    """A class that has no function for printing."""

    value: ir.PrimExpr = child()
    number: int = data()


class UnknownStatement(tir.Stmt, key="test.UnknownStatement"):
    """A statement without a function for printing."""

    body: tir.Stmt = child()


def test_classes_without_a_printer():
    node = Unknown(x + 1, 3)
    assert str(node) == "test.Unknown(value=x + 1, number=3)"
    statement = UnknownStatement(tir.For(x, 0, 4, 0, tir.Evaluate(x)))
    assert "test.UnknownStatement(body=tir.For(" in str(statement)


def test_module_with_an_unprintable_function():
    class Odd(ir.BaseFunc, key="test.Odd"):
        attrs: dict = data()

    assert "# odd = test.Odd(attrs={})" in str(ir.IRModule({"odd": Odd({})}))


def broken(cls, **fields):
    """A node with fields that its constructor would refuse."""
    node = cls.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(node, name, value)
    return node


@pytest.mark.parametrize(
    "node",
    [
        broken(tir.Add, a=x, b=None),
        broken(tir.Add, a=x),
        broken(tir.BufferLoad, buffer=None, indices=None, predicate=None, dtype=None),
        broken(tir.For, loop_var=x, min=None, extent=3, kind=7, body=None),
        broken(tir.Block),
        tir.SeqStmt((tir.Evaluate(x), broken(tir.IfThenElse, condition=x < 1), tir.Evaluate(y))),
        tir.PrimFunc([x], broken(tir.BufferStore, buffer=A)),
        broken(tir.PrimFunc, params=None, attrs={}),
        ir.IRModule({"f": tir.PrimFunc([], broken(tir.While, condition=x < 1, body=3))}),
    ],
    ids=lambda node: type(node).__name__,
)
def test_broken_nodes_are_printed_as_far_as_they_go(node):
    assert str(node)
    assert node.script()


def test_what_stands_around_a_broken_node_is_printed():
    body = tir.SeqStmt((tir.Evaluate(x), broken(tir.IfThenElse, condition=x < 1), tir.Evaluate(y)))
    lines = str(tir.PrimFunc([x, y], body)).split("\n")
    assert lines[-1] == "    T.evaluate(y)"
    assert "    # IfThenElse that cannot be printed: " in "\n".join(lines)


def test_ranges_of_nodes():
    loop = tir.For(x, 0, 4, 0, store := tir.BufferStore(A, value := f + 1.0, (x, y)))
    result = printing.printed(loop)
    assert [result.text[a:b] for a, b in result.ranges_of(value)] == ["f + T.float32(1.0)"]
    assert [result.text[a:b] for a, b in result.ranges_of(store)] == [
        "A[x, y] = f + T.float32(1.0)"
    ]
    assert [result.text[a:b] for a, b in result.ranges_of(x)] == ["x", "x"]
    assert result.ranges_of(tir.Var("other", "int32")) == []


def test_underline_with_context():
    function = tir.PrimFunc(
        [x, y], tir.SeqStmt([tir.Evaluate(x + n) for n in range(1, 9)] + [tir.Evaluate(y)])
    )
    text = function.script(obj_to_underline=[y], num_context_lines=1)
    assert text.split("\n") == [
        "(... 2 lines skipped ...)",
        "@T.prim_func(private=True)",
        "def main(x: T.int32, y: T.int32):",
        "                     ^",
        "    T.evaluate(x + 1)",
        "(... 6 lines skipped ...)",
        "    T.evaluate(x + 8)",
        "    T.evaluate(y)",
        "               ^",
    ]
    numbered = function.script(obj_to_underline=[y], num_context_lines=0, print_line_numbers=True)
    assert "13     T.evaluate(y)\n                  ^" in numbered


def test_underline_by_path():
    body = tir.SeqStmt([tir.Evaluate(x), tir.Evaluate(y)])
    path = ObjectPath.root().attr("seq").array_index(1)
    assert body.script(path_to_underline=[path]).endswith("T.evaluate(y)\n^^^^^^^^^^^^^")


REPEATED = tir.Evaluate(x * x + y)
ROOT = ObjectPath.root()


@pytest.mark.parametrize(
    ("path", "line", "marker"),
    [
        (ROOT.attr("seq").array_index(0), 0, "^" * 23),
        (ROOT.attr("seq").array_index(1), 1, "^" * 23),
        (ROOT.attr("seq").array_index(1).attr("value").attr("a").attr("a"), 1, " " * 11 + "^"),
        (ROOT.attr("seq").array_index(1).attr("value").attr("a").attr("b"), 1, " " * 15 + "^"),
        # what is not shown: the last object on the path that is
        (ROOT.attr("seq").array_index(0).attr("value").attr("b").attr("dtype"), 0, " " * 19 + "^"),
        (ROOT.attr("seq").array_index(0).attr("nothing"), 0, "^" * 23),
    ],
)
def test_a_path_underlines_one_place_of_a_shared_object(path, line, marker):
    body = tir.SeqStmt([REPEATED, REPEATED])
    lines = body.script(path_to_underline=[path]).split("\n")
    lines = lines[next(i for i, text in enumerate(lines) if "evaluate" in text) :]
    assert [text for text in lines if text.strip(" ^")] == ["T.evaluate(x * x + y)"] * 2
    assert lines.index(marker[: len(lines[0])]) == line + 1 and len(lines) == 3


def test_annotation_of_a_path():
    body = tir.SeqStmt([tir.Evaluate(y), tir.Evaluate(x)])
    path = ROOT.attr("seq").array_index(1).attr("span")
    assert body.script(path_to_annotate={path: "here"}).endswith("T.evaluate(x)  # here")


def test_annotation_of_a_node():
    statement = tir.Evaluate(x)
    body = tir.SeqStmt([tir.Evaluate(y), statement])
    assert body.script(obj_to_annotate={statement: "here"}).endswith("T.evaluate(x)  # here")


def test_options():
    with pytest.raises(ConfigError, match="did you mean 'verbose_expr'"):
        x.script(verbose_exp=True)
    function = tir.PrimFunc([x], tir.Evaluate(x))
    assert "def other(" in function.script(name="other")
    assert "@TIR.prim_func" in function.script(tir_prefix="TIR")
    assert "\n  T.evaluate(x)" in function.script(indent_spaces=2)
    assert f"x_{id(x):x}" in function.script(show_object_address=True)


def test_signatures_are_one_line():
    params = [tir.decl_buffer((16, 16), "float32", f"buffer{n}") for n in range(4)]
    text = tir.PrimFunc(params, tir.Evaluate(0)).script()
    assert text.split("\n")[3].startswith(
        'def main(buffer0: T.Buffer((16, 16), "float32"), buffer1'
    )
    assert text.split("\n")[3].endswith("):")


def test_show(capsys):
    (x + 1).show()
    assert capsys.readouterr().out.strip().endswith("x + 1")


def test_show_in_a_terminal(capsys, monkeypatch):
    pytest.importorskip("pygments")
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for style in (None, "light", "dark"):
        (x + 1).show(style)
        assert "\x1b[" in capsys.readouterr().out


def test_arrays():
    array = numpy.arange(3, dtype="int64")
    printer = printing.Printer(printing.PrinterConfig())
    first, again = printer.array("kind", array, "int64"), printer.array("kind", array, "int64")
    assert str(first) == str(again) == 'metadata["kind"][0]'
    assert str(printer.array("kind", array.copy(), "int64")) == 'metadata["kind"][1]'


def test_deep_expressions():
    expression = x
    for _ in range(3000):
        expression = tir.Add(expression, y)
    assert str(expression).count("+") == 3000
    again = ts.script.from_source(tir.PrimFunc([x, y], tir.Evaluate(expression)).script())
    ir.assert_structural_equal(again, tir.PrimFunc([x, y], tir.Evaluate(expression)))


def test_deeply_nested_expressions():
    """Python reads 200 open brackets at most: deeper expressions are split."""
    expression = x
    for _ in range(500):
        expression = tir.Max(y, tir.Cast("int32", tir.Cast("int64", expression)))
    function = tir.PrimFunc([x, y], tir.Evaluate(expression))
    text = function.script()
    assert "part = T.meta_var(T." in text
    again = ts.script.from_source(text)
    ir.assert_structural_equal(again, function)
    assert again.script() == text
    assert "meta_var" not in str(expression)


def test_values_of_axes_belong_around_the_block():
    v, w = tir.IterVar((0, 16), "v", 0), tir.IterVar((0, 16), "w", 2)
    block = tir.Block([v, w], [], [], "b", tir.Evaluate(0))
    assert str(tir.BlockRealize([x, y + 1], True, block)).split("\n") == [
        "x = T.int32()",
        "y = T.int32()",
        'with T.block("b"):',
        "    v = T.axis.spatial(16, x)",
        "    w = T.axis.reduce(16, y + 1)",
        "    T.reads()",
        "    T.writes()",
        "    T.evaluate(0)",
    ]
