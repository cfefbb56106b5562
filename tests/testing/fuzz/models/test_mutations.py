"""Each way of changing a model, an artifact or an array changes something, and a seed says how."""

import json
import zipfile

import numpy as np
import pytest

from tilesmith.relax.frontend.onnx import from_onnx
from tilesmith.runtime.artifact import read_artifact, write_artifact
from tilesmith.support.errors import ArtifactError
from tilesmith.testing.fuzz.models import cases
from tilesmith.testing.fuzz.models.arrays import ODD_ARRAYS, odd_arguments, plain_array
from tilesmith.testing.fuzz.models.artifacts import ARTIFACT_MUTATIONS
from tilesmith.testing.fuzz.models.bases import BASES, load_base, names_of_others
from tilesmith.testing.fuzz.models.contents import BYTE_MUTATIONS
from tilesmith.testing.fuzz.models.pick import MUTATIONS, NotApplicable, Pick, graphs, nodes

# What needs more than the smallest models have.
WITH = {
    "other_function": "function",
    "swap_nodes": "unary",
    "swap_graphs": "if",
    "other_equation": "einsum",
}
STAY_REFUSED = {"loop"}


def changed(name, base, seed):
    level, change = MUTATIONS[name]
    model = load_base(base)
    before = model.SerializeToString()
    if level == "byte":
        return before, change(Pick(seed), before)
    change(Pick(seed), model)
    return before, model.SerializeToString()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_changes_models(name):
    different = set()
    for seed in range(12):
        try:
            before, after = changed(name, WITH.get(name, "conv"), seed)
        except NotApplicable:
            continue
        assert changed(name, WITH.get(name, "conv"), seed) == (before, after)
        different.add(after)
    assert different - {before}


def test_mutations_reach_subgraphs():
    model = load_base("nested")
    assert len(graphs(model)) == 4 and len(nodes(model)) > 5


@pytest.mark.parametrize("name", sorted(set(BASES) - STAY_REFUSED))
def test_models_are_imported(name, tmp_path):
    path = cases.make_model({"base": name, "mutations": []}, tmp_path)
    assert "main" in from_onnx(path)


def test_there_are_models_of_onnx():
    assert len(names_of_others()) > 1000


@pytest.fixture
def artifact(tmp_path):
    path = tmp_path / "a.tsm"
    metadata = {"functions": {"main": {"params": [], "result": {"kind": "none"}}}}
    write_artifact(path, metadata, {"code.0.o": b"code"}, {"w": np.ones(3, "float32")})
    return path.read_bytes()


@pytest.mark.parametrize("name", ARTIFACT_MUTATIONS)
def test_a_mutation_changes_artifacts(name, artifact):
    change = ARTIFACT_MUTATIONS[name]
    found = [change(Pick(seed), artifact) for seed in range(8)]
    assert found == [change(Pick(seed), artifact) for seed in range(8)]
    assert any(each != artifact for each in found)


def test_signed_changes_have_digests_that_fit(artifact, tmp_path):
    path = tmp_path / "b.tsm"
    differ = 0
    for seed in range(8):
        path.write_bytes(ARTIFACT_MUTATIONS["sign_metadata"](Pick(seed), artifact))
        with zipfile.ZipFile(path) as archive:
            metadata = json.loads(archive.read("metadata.json"))
        if isinstance(metadata, dict):
            assert read_artifact(path).metadata == metadata
            differ += metadata != read_original(artifact, tmp_path)
    assert differ


def test_shared_parameters_in_odd_places_are_refused(artifact, tmp_path):
    path = tmp_path / "b.tsm"
    messages = set()
    for seed in range(40):
        path.write_bytes(ARTIFACT_MUTATIONS["sign_shared"](Pick(seed), artifact))
        with pytest.raises(ArtifactError) as caught:
            read_artifact(path)
        messages.add(str(caught.value).partition(":")[0])
    assert any("cannot be the file of shared parameters" in text for text in messages)
    assert any("what it says" in text or "damaged" in text for text in messages)


def read_original(artifact, folder):
    path = folder / "original.tsm"
    path.write_bytes(artifact)
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("metadata.json"))


@pytest.mark.parametrize("name", BYTE_MUTATIONS)
def test_a_mutation_changes_bytes(name):
    assert BYTE_MUTATIONS[name](Pick(1), bytes(range(200))) != bytes(range(200))
    with pytest.raises(NotApplicable):
        BYTE_MUTATIONS[name](Pick(1), b"")


@pytest.mark.parametrize("name", ODD_ARRAYS)
@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), "float32"), ((), "int64"), ((0,), "bool")])
def test_odd_arrays_can_be_made(name, shape, dtype):
    for seed in range(4):
        ODD_ARRAYS[name](Pick(seed), plain_array(shape, dtype))


def test_odd_arguments():
    found = [odd_arguments(Pick(seed), ["a", "b"], [np.ones(1)] * 2) for seed in range(30)]
    assert {len(given) for given, _ in found} == {0, 1, 2, 3}
    assert any(named for _, named in found)


@pytest.mark.parametrize("kind", cases.KINDS)
def test_a_seed_says_which_case(kind):
    drawn = [cases.draw_case(seed, kind) for seed in range(20)]
    assert drawn == [cases.draw_case(seed, kind) for seed in range(20)]
    assert len({json.dumps(case) for case in drawn}) == 20
    assert all(case["kind"] == kind for case in drawn)


def test_only_one_level():
    drawn = [cases.draw_case(seed, "model", "byte") for seed in range(20)]
    names = {name for case in drawn for name, _ in case["mutations"]}
    assert names and all(MUTATIONS[name][0] == "byte" for name in names)
