"""The acceptance programs: whole programs written against the public API, each run unchanged.

The programs lie beside the checkout (`../shared/acceptance`) and are not part of this repository;
`ACCEPTANCE_PROGRAMS` names another folder. A program enters the table on the day it passes, and
leaves it never.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("ACCEPTANCE_PROGRAMS", REPOSITORY.parent / "shared" / "acceptance"))
TIME_LIMIT_SECONDS = 240

PROGRAMS = (
    "cuda_gemm_ladder",
    "graph_rewrite",
    "old_spellings",
    "random_search",
    "relax_emit_te_cnn",
    "relay_build",
    "te_build_and_targets",
    "te_schedule_primitives",
    "tensorir_bmm_relu",
    "tensorir_broadcast_add",
    "tensorir_conv2d",
)

needs_programs = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"the acceptance programs are not beside this checkout ({FOLDER}); "
    "set ACCEPTANCE_PROGRAMS to their folder",
)


def test_number_of_supported_programs():
    """A program must not drop out of the table unnoticed."""
    assert len(PROGRAMS) == len(set(PROGRAMS)) == 11


def run(program: list[str], name: str, folder: Path) -> None:
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    finished = subprocess.run(
        [sys.executable, *program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
    )
    assert finished.returncode == 0, (
        f"{name} ended with exit code {finished.returncode}\n"
        f"--- stdout\n{finished.stdout[-4000:]}\n--- stderr\n{finished.stderr[-8000:]}"
    )


@needs_programs
@pytest.mark.timeout(TIME_LIMIT_SECONDS + 30)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str, tmp_path: Path):
    path = FOLDER / f"{program}.py"
    assert path.is_file(), f"{path} is missing although its folder is there"
    run([str(path)], program, tmp_path)


@needs_programs
@pytest.mark.timeout(TIME_LIMIT_SECONDS + 30)
@pytest.mark.parametrize("program", ["te_schedule_primitives", "tensorir_conv2d"])
def test_program_of_a_tvm_user(program: str, tmp_path: Path):
    """The same, written with ``import tvm``."""
    text = (FOLDER / f"{program}.py").read_text(encoding="utf-8")
    assert "import tilesmith as ts" in text or "from tilesmith" in text
    text = re.sub(r"^(import|from) tilesmith\b", r"\1 tvm", text, flags=re.MULTILINE)
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    run(["-m", "tilesmith.compat.tvm", str(path)], program, tmp_path)
