"""Trees of documents as Python text: what is written means, to Python, what the tree says."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.ir.object_path import ObjectPath
from tilesmith.script.printer import to_python_script
from tilesmith.script.printer.doc import (
    AssertDoc,
    AssignDoc,
    CallDoc,
    ClassDoc,
    CommentDoc,
    DictDoc,
    DocStringDoc,
    ExprStmtDoc,
    ForDoc,
    FunctionDoc,
    IdDoc,
    IfDoc,
    LambdaDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    OperationKind,
    ReturnDoc,
    ScopeDoc,
    SliceDoc,
    StmtBlockDoc,
    TupleDoc,
    WhileDoc,
)
from tilesmith.support.errors import TypeMismatchError

x, y, T = IdDoc("x"), IdDoc("y"), IdDoc("T")
one = LiteralDoc(1)


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (x.attr("f").call(one, key=LiteralDoc('a"')), 'x.f(1, key="a\\"")'),
        (x[one, SliceDoc(one, y)], "x[1, 1:y]"),
        (x[SliceDoc(None, None, one)], "x[::1]"),
        (x[()], "x[()]"),
        (TupleDoc([x]), "(x,)"),
        (ListDoc([]), "[]"),
        (DictDoc({x: one}), "{x: 1}"),
        (LambdaDoc([x, y], x), "lambda x, y: x"),
        (CallDoc(LambdaDoc([], x)), "(lambda: x)()"),
        (LiteralDoc(float("inf")), 'float("inf")'),
        (LiteralDoc(-1).attr("real"), "(-1).real"),
        (LiteralDoc(None), "None"),
        (OperationDoc(OperationKind.IfThenElse, [x, y, one]), "y if x else 1"),
    ],
)
def test_expressions(doc, text):
    assert to_python_script(doc) == text


_OPERATORS = {
    "USub": ast.USub, "Invert": ast.Invert, "Not": ast.Not, "Add": ast.Add, "Sub": ast.Sub,
    "Mult": ast.Mult, "Div": ast.Div, "FloorDiv": ast.FloorDiv, "Mod": ast.Mod, "Pow": ast.Pow,
    "LShift": ast.LShift, "RShift": ast.RShift, "BitAnd": ast.BitAnd, "BitOr": ast.BitOr,
    "BitXor": ast.BitXor, "Lt": ast.Lt, "LtE": ast.LtE, "Eq": ast.Eq, "NotEq": ast.NotEq,
    "Gt": ast.Gt, "GtE": ast.GtE, "And": ast.And, "Or": ast.Or,
}  # fmt: skip


def tree_of(doc):
    """The tree of operators as nested tuples."""
    if isinstance(doc, IdDoc):
        return doc.name
    return (doc.kind.name, *[tree_of(operand) for operand in doc.operands])


def tree_of_python(node):
    names = {cls: name for name, cls in _OPERATORS.items()}
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.UnaryOp):
        return names[type(node.op)], tree_of_python(node.operand)
    if isinstance(node, ast.BinOp):
        return names[type(node.op)], tree_of_python(node.left), tree_of_python(node.right)
    if isinstance(node, ast.Compare):
        (kind,), (right,) = node.ops, node.comparators
        return names[type(kind)], tree_of_python(node.left), tree_of_python(right)
    if isinstance(node, ast.IfExp):
        parts = (node.test, node.body, node.orelse)
        return ("IfThenElse", *[tree_of_python(part) for part in parts])
    first, *rest = node.values
    result = tree_of_python(first)
    for value in rest:
        result = names[type(node.op)], result, tree_of_python(value)
    return result


def operations(inner):
    unary = st.sampled_from(["USub", "Invert", "Not"])
    binary = st.sampled_from([name for name in _OPERATORS if name not in ("USub", "Invert", "Not")])

    def make(name, *operands):
        return OperationDoc(OperationKind[name], operands)

    return st.one_of(
        st.builds(make, unary, inner),
        st.builds(make, binary, inner, inner),
        st.builds(make, st.just("IfThenElse"), inner, inner, inner),
    )


@given(st.recursive(st.sampled_from([x, y]), operations, max_leaves=12))
def test_operators_nest_as_python_reads_them(doc):
    read = ast.parse(to_python_script(doc), mode="eval").body
    assert tree_of_python(read) == tree_of(doc)


def test_statements():
    body = [
        DocStringDoc("What it does."),
        AssignDoc(x, one, T.attr("int32")),
        AssignDoc(TupleDoc([x, y]), T.attr("f").call()),
        AssignDoc(y, None, T.attr("int32")),
        ForDoc(x, IdDoc("range").call(one), []),
        WhileDoc(x, [AssertDoc(x, LiteralDoc("no"))]),
        IfDoc(x, [ExprStmtDoc(x)], [IfDoc(y, None, [CommentDoc("nothing")])]),
        ScopeDoc(None, T.attr("init").call(), []),
        ScopeDoc(y, T.attr("f").call(), [ReturnDoc(y)]),
    ]
    body[1].comment = "a note"
    body[4].comment = "above"
    function = FunctionDoc(IdDoc("f"), [AssignDoc(x, one), AssignDoc(y, None, T)], [T], T, body)
    text = to_python_script(StmtBlockDoc([ClassDoc(IdDoc("M"), [T], [function])]), 2)
    assert text.split("\n") == [
        "@T",
        "class M:",
        "  @T",
        "  def f(x=1, y: T) -> T:",
        '    """',
        "    What it does.",
        '    """',
        "    x: T.int32 = 1  # a note",
        "    x, y = T.f()",
        "    y: T.int32",
        "    # above",
        "    for x in range(1):",
        "      pass",
        "    while x:",
        '      assert x, "no"',
        "    if x:",
        "      x",
        "    else:",
        "      if y:",
        "        pass",
        "      else:",
        "        # nothing",
        "    with T.init():",
        "      pass",
        "    with T.f() as y:",
        "      return y",
    ]


def test_what_is_none():
    with pytest.raises(TypeMismatchError, match="takes 2 operands"):
        to_python_script(OperationDoc(OperationKind.Add, [x]))
    with pytest.raises(TypeMismatchError, match="not an expression"):
        to_python_script(ExprStmtDoc(CommentDoc("c")))
    with pytest.raises(TypeError):
        list(x)


def shown(doc, path):
    doc.source_paths.append(path)
    return doc


def test_marks():
    """What shows a path is underlined, else the nearest part around it."""
    root = ObjectPath.root()
    body, value = root.attr("body"), root.attr("body").attr("value")
    total = shown(OperationDoc(OperationKind.Add, [x, one]), value)
    product = OperationDoc(OperationKind.Mult, [total, y])
    inside = shown(AssignDoc(y, product, None), body)
    program = shown(
        StmtBlockDoc([ForDoc(x, T.attr("grid").call(one), [inside, AssignDoc(x, y, None)])]), root
    )
    lines = ["for x in T.grid(1):", "    y = (x + 1) * y", "    x = y"]
    assert to_python_script(program).split("\n") == lines
    text = to_python_script(program, path_to_underline=value.attr("a"))
    assert text.split("\n") == [*lines[:2], "        ^^^^^^^", lines[2]]
    text = to_python_script(program, print_line_numbers=True, path_to_underline=[body])
    assert text.split("\n") == [
        "1 " + lines[0], "2 " + lines[1], "      ^^^^^^^^^^^^^^^", "3 " + lines[2],
    ]  # fmt: skip
    nearest = to_python_script(program, path_to_underline=root.attr("z")).split("\n")
    assert nearest[::2] == lines and all("^" in line for line in nearest[1::2])
    long = StmtBlockDoc([AssignDoc(IdDoc(f"a{k}"), one, None) for k in range(9)])
    shown(long.stmts[4], body)
    assert to_python_script(long, num_context_lines=1, path_to_underline=body).split("\n") == [
        "(... 3 lines skipped ...)", "a3 = 1", "a4 = 1", "^^^^^^", "a5 = 1",
        "(... 3 lines skipped ...)",
    ]  # fmt: skip


def test_marks_of_compound_statements():
    path = ObjectPath.root().attr("f")
    function = shown(FunctionDoc(IdDoc("f"), [], [], None, [ReturnDoc(one)]), path)
    program = StmtBlockDoc([AssignDoc(x, one, None), function])
    assert to_python_script(program, 2, path_to_underline=path).split("\n") == [
        "x = 1", "", "def f():", "^^^^^^^^", "  return 1", "  ^^^^^^^^",
    ]  # fmt: skip
