"""Checked mode for these tests: inside the product, `==` between expressions is never a question."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilesmith.ir import operators


@pytest.fixture(autouse=True)
def checked_mode() -> Iterator[None]:
    before = operators._checked_mode
    operators.check_truth_of_equality(True)
    yield
    operators.check_truth_of_equality(before)
