"""Annotators of old programs: chains from add to multiply for the example compiler."""

import numpy as np

import tilesmith as ts
from tilesmith import ir, relay
from tilesmith.relay.op.annotation import compiler_begin, compiler_end
from tilesmith.relay.testing.byoc import CcompilerAnnotator

NAMES = "abcd"
A, B, C, D = (relay.var(name, shape=(3,)) for name in NAMES)


def begin(value):
    return compiler_begin(value, "ccompiler")


def test_a_chain_is_marked_from_its_beginning_to_its_end():
    found = CcompilerAnnotator().visit(relay.exp(((A + B) - C) * D))
    inside = ((begin(A) + begin(B)) - begin(C)) * begin(D)
    ir.assert_structural_equal(found, relay.exp(compiler_end(inside, "ccompiler")))


def test_what_is_no_chain_stays():
    expr = relay.exp((A - B) * C) + D
    assert CcompilerAnnotator().visit(expr) is expr


def test_an_annotated_program_is_compiled():
    body = CcompilerAnnotator().visit(relay.exp(((A + B) - C) * (D + A)))
    mod = relay.transform.PartitionGraph()(
        ts.IRModule.from_expr(relay.Function([A, B, C, D], body))
    )
    assert len(mod.functions) == 2
    values = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    found = relay.build(mod, "llvm").get_lib()(*values).numpy()
    a, b, c, d = values
    np.testing.assert_allclose(found, np.exp((a + b - c) * (d + a)), rtol=1e-5)
