"""The law of the script on programs that are generated: expressions, loop nests, blocks."""

from hypothesis import given
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import ir, tir
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.stmt import stmt_seq

INTEGERS = ("int32", "int64", "int8", "uint8")
FLOATS = ("float32", "float16", "float64")


def check(function):
    text = function.script()
    again = ts.script.from_source(text, check_well_formed=False)
    assert_structural_equal(function, again)
    assert again.script() == text


class Scope:
    """Variables and a buffer of each dtype, to build expressions from."""

    def __init__(self):
        self.variables = {t: [tir.Var(n, t) for n in ("x", "y", "x")] for t in INTEGERS + FLOATS}
        self.buffers = {t: tir.decl_buffer((8, 8), t, "A") for t in INTEGERS + FLOATS}

    def params(self):
        names = [v for group in self.variables.values() for v in group]
        return [*names, *self.buffers.values()]


@st.composite
def values(draw, scope, dtype, depth):
    """An expression of a dtype, made by constructors: nothing is folded."""
    kinds = ["const", "var"] + (
        ["binary", "binary", "minmax", "cast", "load", "choice"] if depth else []
    )
    kind = draw(st.sampled_from(kinds))
    if kind == "const" and dtype in FLOATS:
        number = st.one_of(
            st.sampled_from([0.0, -0.0, 1.0, -1.5, float("inf"), float("nan"), 6e4, 0.1]),
            st.floats(width=16),
        )
        return tir.FloatImm(dtype, draw(number))
    if kind == "const":
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        return tir.IntImm(dtype, draw(st.integers(low, high)))
    if kind == "var":
        return draw(st.sampled_from(scope.variables[dtype]))
    inner = values(scope, dtype, depth - 1)
    if kind == "binary":
        choices = [tir.Add, tir.Sub, tir.Mul, tir.Div]
        choices += [tir.FloorDiv, tir.FloorMod, tir.Mod] if dtype not in FLOATS else []
        return draw(st.sampled_from(choices))(draw(inner), draw(inner))
    if kind == "minmax":
        return draw(st.sampled_from([tir.Min, tir.Max]))(draw(inner), draw(inner))
    if kind == "cast":
        other = draw(st.sampled_from(INTEGERS + FLOATS))
        return tir.Cast(dtype, draw(values(scope, other, depth - 1)))
    if kind == "load":
        index = values(scope, "int32", depth - 1)
        return tir.BufferLoad(scope.buffers[dtype], (draw(index), draw(index)))
    condition = draw(conditions(scope, depth - 1))
    if draw(st.booleans()):
        return tir.Select(condition, draw(inner), draw(inner))
    return tir.Call(dtype, "tir.if_then_else", (condition, draw(inner), draw(inner)))


@st.composite
def conditions(draw, scope, depth):
    kind = draw(st.sampled_from(["compare", "const"] + (["and", "or", "not"] if depth else [])))
    if kind == "const":
        return tir.IntImm("bool", draw(st.booleans()))
    if kind == "compare":
        dtype = draw(st.sampled_from(INTEGERS + FLOATS))
        side = values(scope, dtype, max(depth - 1, 0))
        compare = draw(st.sampled_from([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE]))
        return compare(draw(side), draw(side))
    inner = conditions(scope, depth - 1)
    if kind == "not":
        return tir.Not(draw(inner))
    return (tir.And if kind == "and" else tir.Or)(draw(inner), draw(inner))


@given(st.data())
def test_expressions(data):
    scope = Scope()
    dtype = data.draw(st.sampled_from(INTEGERS + FLOATS))
    value = data.draw(values(scope, dtype, 3))
    condition = data.draw(conditions(scope, 2))
    body = stmt_seq(tir.Evaluate(value), tir.Evaluate(condition))
    check(tir.PrimFunc(scope.params(), body))


@st.composite
def statements(draw, scope, depth):
    """A statement; names clash on purpose."""
    kind = draw(
        st.sampled_from(
            ["store"]
            + (
                ["for", "if", "let", "seq", "while", "block", "alloc", "attr", "assert"]
                if depth
                else []
            )
        )
    )
    index = values(scope, "int32", 1)
    if kind == "store":
        dtype = draw(st.sampled_from(INTEGERS + FLOATS))
        value = draw(values(scope, dtype, 2))
        return tir.BufferStore(scope.buffers[dtype], value, (draw(index), draw(index)))
    inner = statements(scope, depth - 1)
    if kind == "for":
        var = tir.Var(draw(st.sampled_from("ij")), draw(st.sampled_from(["int32", "int64"])))
        low, extent = draw(values(scope, var.dtype, 1)), draw(values(scope, var.dtype, 1))
        low = draw(st.sampled_from([low, ir.const(0, var.dtype)]))
        flavour = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        notes = draw(st.sampled_from([{}, {"pragma": 1}]))
        return tir.For(var, low, extent, flavour, draw(inner), None, notes)
    if kind == "if":
        otherwise = draw(st.one_of(st.none(), inner))
        return tir.IfThenElse(draw(conditions(scope, 1)), draw(inner), otherwise)
    if kind == "let":
        dtype = draw(st.sampled_from(INTEGERS + FLOATS))
        return tir.LetStmt(tir.Var("x", dtype), draw(values(scope, dtype, 2)), draw(inner))
    if kind == "while":
        return tir.While(draw(conditions(scope, 1)), draw(inner))
    if kind == "attr":
        return tir.AttrStmt(draw(index), "key", draw(index), draw(inner))
    if kind == "assert":
        return tir.AssertStmt(draw(conditions(scope, 1)), "message", draw(inner))
    if kind == "alloc":
        pointer = tir.Var("A", ir.PointerType(ir.PrimType("float32"), "local"))
        own = tir.decl_buffer((4,), "float32", "A", data=pointer)
        body = stmt_seq(tir.BufferStore(own, 1.0, (draw(index),)), draw(inner))
        if draw(st.booleans()):
            body = tir.DeclBuffer(own, body)
        return tir.Allocate(pointer, "float32", (draw(st.sampled_from([4, 5])),), True, body)
    if kind == "block":
        return draw(blocks(scope, depth))
    return stmt_seq(*draw(st.lists(inner, min_size=2, max_size=3)))


def _may_be_extent(value):
    return getattr(value, "value", 0) >= 0


@st.composite
def blocks(draw, scope, depth):
    """Blocks of one iterator; the parser refuses a constant extent below 0."""
    var = tir.Var("v", "int32")
    index = values(scope, "int32", 1)
    axis = tir.IterVar(
        ir.Range.from_min_extent(draw(st.sampled_from([0, 2])), draw(index.filter(_may_be_extent))),
        var,
        draw(st.sampled_from([0, 2, 3])),
    )
    buffer = scope.buffers["float32"]
    region = BufferRegion(
        buffer,
        (ir.Range.from_min_extent(var, 1), ir.Range.from_min_extent(draw(index), draw(index))),
    )
    own = tir.decl_buffer((4,), "float32", "A", scope=draw(st.sampled_from(["global", "shared"])))
    init = draw(st.one_of(st.none(), statements(scope, 0)))
    body = stmt_seq(tir.BufferStore(own, 0.0, (var,)), draw(statements(scope, depth - 1)))
    block = tir.Block(
        [axis],
        [region],
        [],
        draw(st.sampled_from(["b", "", "update"])),
        body,
        init,
        [own],
        (),
        {"a": 1},
    )
    return tir.BlockRealize((draw(index),), draw(conditions(scope, 1)), block)


@given(st.data())
def test_statements(data):
    scope = Scope()
    body = data.draw(statements(scope, 3))
    root = tir.Block((), (), (), "root", body)
    check(
        tir.PrimFunc(
            scope.params(), tir.BlockRealize((), True, root), attrs={"global_symbol": "main"}
        )
    )
