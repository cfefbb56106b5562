"""The fuzzer finds a broken compiler: each mutation within a minute (mostly at once).

What counts here are programs, not seconds, so that a busy machine decides nothing: a worker tries
more than 300 a minute.
"""

import pytest

from tests.testing.fuzz.mutations import MUTATIONS
from tilesmith.testing.fuzz.isolated import IsolatedRunner

MOST_PROGRAMS = 300


def notices(signature, expected):
    """The step computes something else, or a verifier complains; it does not merely crash."""
    is_verified = "VerifyError" in signature or "verify.py" in signature
    return signature.startswith(expected) and (": raises " not in signature or is_verified)


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_mutation_is_found(name):
    _, expected, only = MUTATIONS[name]
    runner = IsolatedRunner(patch=f"tests.testing.fuzz.mutations:{name}")
    seen = set()
    try:
        for seed in range(MOST_PROGRAMS):
            finding = runner.run_seed(seed, only)["finding"]
            if finding is not None:
                seen.add(finding["signature"])
                if notices(finding["signature"], expected):
                    return
    finally:
        runner.close()
    raise AssertionError(f"only this was found: {sorted(seen)}")
