"""Models that TensorFlow has written, with what it computes (`models/write_models.py`)."""

from pathlib import Path

import numpy as np

from tilesmith import relay
from tilesmith.relax import interpreter
from tilesmith.relax.transform import LegalizeOps
from tilesmith.support.errors import UnsupportedError

FOLDER = Path(__file__).parent / "models"


def written(ending):
    """The names of the models with an ending."""
    return sorted(path.name for path in FOLDER.glob(f"*{ending}"))


def reference(name):
    """(names, inputs, outputs) of a model."""
    with np.load(FOLDER / f"{name}.npz") as held:
        inputs = [held[f"in{i}"] for i in range(len([one for one in held if one[:2] == "in"]))]
        outputs = [held[f"out{i}"] for i in range(len([one for one in held if one[:3] == "out"]))]
        return [str(one) for one in held["names"]], inputs, outputs


def computed(mod, params, inputs):
    """What a module computes for a dict of inputs, as a list; operators that the interpreter does
    not know as loops.
    """
    values = {**{name: one.numpy() for name, one in params.items()}, **inputs}
    given = [values[one.name_hint] for one in mod["main"].params]
    program = relay.to_relax(mod)
    try:
        found = interpreter.run(program, "main", *given)
    except UnsupportedError:
        found = interpreter.run(LegalizeOps()(program), "main", *given)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def agree(found, wanted, steps=0):
    """Check results against a reference; small integers may differ by ``steps``."""
    assert len(found) == len(wanted)
    for place, (have, want) in enumerate(zip(found, wanted)):
        assert (have.shape, have.dtype) == (want.shape, want.dtype), place
        if want.dtype.kind == "f":
            np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5, err_msg=str(place))
        else:
            apart = np.abs(have.astype("int64") - want.astype("int64"))
            assert apart.max(initial=0) <= (steps if want.dtype.itemsize == 1 else 0), place
