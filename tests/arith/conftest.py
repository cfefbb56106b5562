"""Checked mode for these tests: the product never asks for the truth of `==` of expressions."""

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
