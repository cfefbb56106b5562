"""After each pass of the pipeline a program computes what it computed before; so does its code."""

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.transform.harness import arrays_for, assert_same, module, outputs
from tests.tir.transform.programs_script import PROGRAMS
from tilesmith.lowering import build, host_passes, lower_passes
from tilesmith.target import Target
from tilesmith.tir.analysis import verify_well_formed


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_pass_keeps_the_meaning(name):
    func, sizes = PROGRAMS[name]
    arrays = arrays_for(func, sizes)
    want = outputs(func, arrays)
    mod = module(func)
    for step in lower_passes():
        new = step(mod)
        if new[name] is not mod[name]:
            assert_same(outputs(new[name], arrays), want, f"after {step.info.name}")
            verify_well_formed(new[name])
        mod = new


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_wrapper_computes_the_same(name):
    func, sizes = PROGRAMS[name]
    arrays = arrays_for(func, sizes)
    want = outputs(func, arrays)
    mod = module(func)
    for step in [*lower_passes(), *host_passes(Target("llvm"))]:
        mod = step(mod)
    assert f"__tvm_ffi_{name}" in mod
    assert not mod[name].buffer_map
    code = build(func)
    given = [ts.nd.array(a) if isinstance(a, np.ndarray) else a for a in arrays]
    code[name](*given)
    got = [g.numpy() if not isinstance(g, int) else g for g in given]
    assert_same(got, want, "compiled")
