"""Trees of documents as Python text: what is written means, to Python, what the tree says."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
