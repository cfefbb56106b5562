"""The example of a compiler for parts of a model runs."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "external_compiler.py"


def test_the_example_runs(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE))["main"](str(tmp_path / "model.so"))
    assert 'Composite="my_unit.dense_relu"' in capsys.readouterr().out
