"""The law of the script for the whole language: generated programs, under all options."""

import pytest

import tilesmith as ts
from tests.script.generator import FLOATS, SCALARS, Generator
from tilesmith import ir, tir
from tilesmith.ir.intrinsic_table import INTRINSICS
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.tir import expr, stmt
from tilesmith.tir.expr import ProducerLoad
from tilesmith.tir.stmt import ProducerRealize, ProducerStore

OPTIONS = {
    "plain": {},
    "without sugar": {"syntax_sugar": False},
    "verbose": {"verbose_expr": True},
    "verbose without sugar": {"verbose_expr": True, "syntax_sugar": False},
    "other words": {"tir_prefix": "tensor", "ir_prefix": "module", "module_alias": "this"},
    "other dtypes": {"int_dtype": "int64", "float_dtype": "float32", "buffer_dtype": "float16"},
    "small dtypes": {"int_dtype": "int8", "float_dtype": "bfloat16"},
    "two spaces": {"indent_spaces": 2},
}
PROGRAMS = 16


def check(program, **options):
    """The text parses back to an equal program, whose text is the same."""
    text = program.script(**options)
    again = ts.script.from_source(text, check_well_formed=False)
    assert_structural_equal(program, again)
    assert again.script(**options) == text
    assert program.script(**options) == text


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_functions(options):
    for seed in range(PROGRAMS):
        check(Generator(seed).function(), **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_modules(options):
    for seed in range(PROGRAMS // 2):
        check(Generator(1000 + seed).module(), **options)


@pytest.mark.parametrize("record", INTRINSICS, ids=lambda record: record.name)
def test_intrinsics(record):
    for seed in range(2):
        generator = Generator(seed)
        for dtype in ("float32", "int32", "bool"):
            function = generator.function(depth=0)
            body = tir.Evaluate(generator.call(dtype, 1, record))
            check(function.with_fields(body=body), verbose_expr=seed % 2 == 0)


@pytest.mark.parametrize("dtype", [*SCALARS, *[f"{name}x4" for name in SCALARS], "handle"])
def test_dtypes(dtype):
    """Parameters, buffers, memory and values of each data type."""
    x, pointer = tir.Var("x", dtype), tir.Var("p", ir.PointerType(ir.PrimType(dtype), "shared"))
    A, B = (tir.decl_buffer((8,), dtype, name, scope=s) for name, s in (("A", ""), ("B", "local")))
    statements = [tir.Evaluate(x), tir.BufferStore(A, B[1], (0,))]
    statements.append(tir.Allocate(pointer, dtype, (8,), True, tir.Evaluate(pointer)))
    if dtype in FLOATS:
        values = (0.0, -0.0, 1.5, 0.1, 1e-30, float("inf"), float("nan"))
        statements += [tir.Evaluate(tir.FloatImm(dtype, value)) for value in values]
    block = tir.Block((), (), (), "root", tir.SeqStmt(statements), None, [B])
    check(tir.PrimFunc([x, A], tir.BlockRealize((), True, block)))


def classes_of(*modules):
    """The node classes that some modules define."""
    found = [value for module in modules for value in vars(module).values()]
    names = {module.__name__ for module in modules}
    return {
        cls
        for cls in found
        if isinstance(cls, type) and issubclass(cls, ir.Node) and cls.__module__ in names
    }


# Classes above others, and those of classic schedules, which scripts show but do not read.
ABSTRACT = {
    tir.BinaryOp, tir.CompareOp, tir.ConstExpr, tir.LogicalOp, tir.PrimExpr, tir.Stmt, ir.BaseExpr,
    tir.DataProducer, ProducerLoad, ProducerRealize, ProducerStore, tir.PrimFunc,
}  # fmt: skip


def test_the_generator_knows_every_class():
    seen, dtypes = set(), set()

    def note(node):
        seen.add(type(node))
        if isinstance(node, tir.Var):
            dtypes.add(str(node.dtype))

    for seed in range(120):
        tir.post_order_visit(Generator(seed).function().body, note)
    wanted = classes_of(stmt, expr, ir.expr)
    assert not wanted - seen - ABSTRACT - {ir.GlobalVar, ir.expr.RelaxExpr}
    assert set(SCALARS) <= dtypes
