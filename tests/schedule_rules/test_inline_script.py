"""Inlining of elementwise blocks, and where it stops."""

import numpy as np

import tilesmith
from tilesmith import te
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.tir import Schedule


def chain(length):
    """Blocks that each read what is before them three times."""
    first = values = te.placeholder((16,), "float32", name="x")
    for number in range(length):
        values = te.compute(
            (16,),
            lambda i, v=values: te.if_then_else(v[i] > 0.5, v[i] * 0.5, v[i] + 0.25),
            name=f"step{number}",
        )
    return te.create_prim_func([first, values])


def test_short_chains_become_one_block():
    schedule = Schedule(chain(3))
    with collect_fallbacks() as report:
        inline_elementwise(schedule)
    assert len(schedule.get_child_blocks(schedule.get_block("root"))) == 1
    assert not report.rows()


def test_long_chains_do_not_multiply():
    schedule = Schedule(chain(40))
    with collect_fallbacks() as report:
        inline_elementwise(schedule)
    left = len(schedule.get_child_blocks(schedule.get_block("root")))
    assert 4 < left < 30
    assert any("would be written again" in one.reason for one, _ in report.rows())
    x = np.linspace(-1, 1, 16, dtype="float32")
    want = x
    for _ in range(40):
        want = np.where(want > 0.5, want * np.float32(0.5), want + np.float32(0.25))
    found = tilesmith.nd.empty((16,), "float32")
    tilesmith.build(chain(40), target="llvm")(tilesmith.nd.array(x), found)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
