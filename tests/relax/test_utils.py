"""Helpers for users who build graphs."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.ir.structural import structural_equal
from tilesmith.relax.utils import metadata_partitioner
from tilesmith.script import from_source
from tilesmith.support.errors import ScriptError


def test_a_text_is_parted_into_program_and_constants():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((64,), "float32"))
    with builder.function("main", [x]):
        weight = relax.const(np.arange(64, dtype="float32"))
        builder.emit_func_output(builder.emit(relax.op.add(x, weight)))
    module = builder.finalize()
    text = module.script(show_meta=True)
    program, metadata = metadata_partitioner(text)
    assert metadata.startswith("metadata = ") and metadata.endswith("})\n")
    assert "def main" in program and "I.array" not in program
    assert structural_equal(from_source(metadata + program), module)
    with pytest.raises(ScriptError, match="no section of large constants"):
        metadata_partitioner(program)
