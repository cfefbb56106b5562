"""Saved code and its metadata belong together: what was changed is refused before it runs."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.runtime.artifact import read_artifact, write_artifact
from tilesmith.runtime.executable import Executable
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import ArtifactError


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.nn.softmax(R.matmul(lv, x))
            gv = R.matmul(lv1, lv)
            R.output(gv)
        return gv


WEIGHTS = np.random.default_rng(1).standard_normal((4, 4)).astype("float32")


@pytest.fixture(scope="module", params=["llvm", "c"])
def saved(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("interface") / "model.tsm"
    relax.build(Module, request.param, {"w": WEIGHTS}).save(path)
    return path


def written_again(saved, path, change):
    """Load an artifact with changed parts that is signed as any other."""
    artifact = read_artifact(saved)
    code = {name: bytes(content) for name, content in artifact.code.items()}
    parameters = {name: np.array(value) for name, value in artifact.parameters.items()}
    change(artifact.metadata["functions"]["main"], parameters)
    write_artifact(path, artifact.metadata, code, parameters)
    return Executable.load(path)


def test_unchanged(saved, tmp_path):
    x = np.ones((4, 4), "float32")
    again = written_again(saved, tmp_path / "same.tsm", lambda main, parameters: None)
    np.testing.assert_array_equal(again(x).numpy(), Executable.load(saved)(x).numpy())


def smaller_workspace(main, parameters):
    assert main["workspace_bytes"] > 0
    main["workspace_bytes"] = 0


def another_input(main, parameters):
    main["params"][0]["shape"] = [2, 4]


def smaller_constant(main, parameters):
    (name,) = parameters
    parameters[name] = parameters[name][:1]


@pytest.mark.parametrize("change", [smaller_workspace, another_input, smaller_constant])
def test_changed(saved, tmp_path, change):
    with pytest.raises(ArtifactError, match="does not belong to its metadata"):
        written_again(saved, tmp_path / "changed.tsm", change)
