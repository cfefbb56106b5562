"""The examples of compilers and libraries for parts of a model run."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_example_runs(tmp_path, capsys):
    runpy.run_path(str(EXAMPLES / "external_compiler.py"))["main"](str(tmp_path / "model.so"))
    assert 'Composite="my_unit.dense_relu"' in capsys.readouterr().out


def test_the_example_of_a_library_runs(tmp_path, capsys):
    runpy.run_path(str(EXAMPLES / "library_for_a_part.py"))["main"](str(tmp_path / "model.tsm"))
    assert '"Composite": "cblas.matmul_transposed_bias_gelu"' in capsys.readouterr().out
