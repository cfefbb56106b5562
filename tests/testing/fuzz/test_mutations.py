"""The fuzzer finds a broken compiler: each mutation within a minute (mostly at once).

What counts here are programs, not seconds, so that a busy machine decides nothing: a worker tries
more than 300 a minute.
"""

import pytest

import tilesmith
from tests.testing.fuzz.check_mutations import CHECK_MUTATIONS
from tests.testing.fuzz.draw_mutations import DRAW_MUTATIONS
from tests.testing.fuzz.field_mutations import FIELD_MUTATIONS
from tests.testing.fuzz.mutations import MUTATIONS
from tilesmith.testing.fuzz.isolated import HANGS, IsolatedRunner

MOST_PROGRAMS = 600


def notices(signature, expected):
    """The step computes something else, or a verifier complains; it does not merely crash, nor take
    long on a busy machine."""
    if signature.endswith(HANGS):
        return False
    is_verified = "VerifyError" in signature or "verify.py" in signature
    return signature.startswith(expected) and (": raises " not in signature or is_verified)


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_mutation_is_found(name):
    _, expected, only = MUTATIONS[name]
    find(f"tests.testing.fuzz.mutations:{name}", expected, only, "blocks")


@pytest.mark.parametrize("name", FIELD_MUTATIONS)
def test_the_field_finds_the_mutation(name):
    _, expected, field, only = FIELD_MUTATIONS[name]
    find(f"tests.testing.fuzz.field_mutations:{name}", expected, only, field)


@pytest.mark.skipif(
    not (tilesmith.opencl(0).exist or tilesmith.cuda(0).exist), reason="no device runs kernels here"
)
def test_the_device_finds_a_wrong_kernel():
    patch = "tests.testing.fuzz.field_mutations:kernels_that_store_one_more"
    find(patch, "codegen: ", "codegen", "gpu")


@pytest.mark.parametrize("name", DRAW_MUTATIONS)
def test_the_draw_finds_the_mutation(name):
    _, expected, field, only = DRAW_MUTATIONS[name]
    find(f"tests.testing.fuzz.draw_mutations:{name}", expected, only, field)


@pytest.mark.parametrize("name", CHECK_MUTATIONS)
def test_the_check_finds_the_mutation(name):
    _, expected, field, only = CHECK_MUTATIONS[name]
    find(f"tests.testing.fuzz.check_mutations:{name}", expected, only, field)


def find(patch, expected, only, field):
    """Draw programs until one of them shows what is broken."""
    runner = IsolatedRunner(patch=patch)
    seen = set()
    try:
        for seed in range(MOST_PROGRAMS):
            finding = runner.run_seed(seed, only, field)["finding"]
            if finding is not None:
                seen.add(finding["signature"])
                if notices(finding["signature"], expected):
                    return
    finally:
        runner.close()
    raise AssertionError(f"only this was found: {sorted(seen)}")
