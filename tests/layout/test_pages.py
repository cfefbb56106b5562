"""The pages of documentation say what their programs print."""

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

from run_pages import run_page  # noqa: E402

PAGES = sorted((REPOSITORY / "docs" / "schedules").glob("*.md"))


def test_there_are_pages():
    assert [page.stem for page in PAGES] == ["gemm", "primitives"]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_programs_print_what_the_page_says(page):
    text, differences = run_page(page)
    assert not differences, "python tools/run_pages.py --update docs/schedules/*.md, then read it"
    assert text == page.read_text(encoding="utf-8")


def test_primitives_are_all_there():
    """Each method of schedules and stages that users know has a section."""
    from tilesmith.te.schedule import Schedule, Stage

    text = (REPOSITORY / "docs" / "schedules" / "primitives.md").read_text(encoding="utf-8")
    methods = {
        name
        for owner in (Schedule, Stage)
        for name, value in vars(owner).items()
        if callable(value) and not name.startswith("_")
    }
    internal = {"attributes", "copy", "group_spec", "normalize", "relate", "replace"}
    sections = {line[4:] for line in text.splitlines() if line.startswith("### ")}
    assert methods - internal == sections


@pytest.mark.parametrize(
    "page, says",
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n", True),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", False),
        ("```python\nprint(1 + 1)\n```\n", False),
        ("```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n", True),
        ("```python\nprint(1)\n```\n\n```measured\n7\n```\n", True),
    ],
)
def test_what_counts_as_a_difference(tmp_path, page, says):
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf-8")
    assert (not run_page(path)[1]) == says
