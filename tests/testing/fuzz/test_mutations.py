"""The fuzzer finds a broken compiler: each mutation within a minute (mostly at once)."""

import time

import pytest

from tests.testing.fuzz.mutations import MUTATIONS
from tilesmith.testing.fuzz.isolated import IsolatedRunner


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_mutation_is_found(name):
    _, expected, only = MUTATIONS[name]
    runner = IsolatedRunner(patch=f"tests.testing.fuzz.mutations:{name}", timeout=30)
    start, seen = time.monotonic(), []
    seed = 0
    try:
        while time.monotonic() - start < 60:
            result = runner.run_seed(seed, only)
            if result["finding"] is not None:
                seen.append(result["finding"]["signature"])
                # it computes something else, it does not merely crash
                if seen[-1].startswith(expected) and ": raises " not in seen[-1]:
                    return
            seed += 1
    finally:
        runner.close()
    raise AssertionError(f"{seed} programs, but only this was found: {sorted(set(seen))}")
