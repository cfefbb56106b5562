"""What the README and the page about low precision show, runs."""

import re
import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PRECISION = (REPOSITORY / "docs" / "low_precision.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README + PRECISION, re.S)


def test_the_readme_has_programs():
    assert len(PROGRAMS) >= 2


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_program(index, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    monkeypatch.chdir(tmp_path)  # programs write files
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[index], encoding="utf-8")
    runpy.run_path(str(program), run_name="readme")


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.M))
def test_make_targets_exist(target):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.M)


def test_commands_have_the_options_shown():
    from click.testing import CliRunner

    from tilesmith.cli.main import tilesmith

    lines = re.findall(r"^tilesmith (\w+)(.*)$", README, re.M)
    assert {name for name, _ in lines} >= {"compile", "run", "bench", "inspect", "doctor"}
    for name, rest in lines:
        text = CliRunner().invoke(tilesmith, [name, "--help"]).output
        for option in re.findall(r"(--[a-z-]+)", rest.partition("#")[0]):
            assert option in text, f"tilesmith {name} has no {option}"


def test_links_lead_somewhere():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert path.startswith("http") or (REPOSITORY / path).exists(), path


def test_the_map_marks_what_is_not_built():
    """In CONTRIBUTING a package is in italics exactly as long as it does not exist."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| (.*?) \|", text, re.M)
    named = {name: bool(star) for row in rows for star, name in re.findall(r"(\*?)`(\w+)`", row)}
    packages = {path.parent.name for path in (REPOSITORY / "tilesmith").glob("*/__init__.py")}
    assert packages <= set(named), "the map lacks a package"
    assert {name for name, is_planned in named.items() if not is_planned} == packages
