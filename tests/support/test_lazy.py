import sys
import types

import pytest

from tilesmith.support.errors import InternalError
from tilesmith.support.knobs import knobs
from tilesmith.support.lazy import lazy_attributes


@pytest.fixture
def module(request):
    made = types.ModuleType("module_with_lazy_names")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_names_are_resolved_at_first_use(module):
    module.__getattr__, module.__dir__ = lazy_attributes(
        module.__name__, {"dumps": "json:dumps", "folders": "os.path"}
    )
    import json
    import os.path

    assert module.dumps is json.dumps
    assert module.folders is os.path
    assert "dumps" in vars(module)  # kept
    assert {"dumps", "folders"} <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'loads'"):
        assert module.loads


def call_from(module_name, getter):
    """Call `getter` as if it stood in another module."""
    scope = {"__name__": module_name, "getter": getter}
    exec("def call(owner):\n    return owner.dumps\n", scope)
    return scope["call"]


def test_doors_refuse_the_house_itself(module):
    module.__getattr__, _ = lazy_attributes(module.__name__, {"dumps": "json:dumps"}, doors=True)
    import json

    assert call_from("user_program", None)(module) is json.dumps
    with pytest.raises(InternalError, match="tilesmith.tir.stmt goes through the door"):
        call_from("tilesmith.tir.stmt", None)(module)
    assert call_from("tilesmith.compat.tvm", None)(module) is json.dumps


def test_doors_are_open_without_the_check(module):
    module.__getattr__, _ = lazy_attributes(module.__name__, {"dumps": "json:dumps"}, doors=True)
    import json

    with knobs.override(check_inside=False):
        assert call_from("tilesmith.tir.stmt", None)(module) is json.dumps


def test_a_name_is_not_that_of_the_module_it_lives_in():
    with pytest.raises(InternalError, match="'json.decoder' would sometimes be the module"):
        lazy_attributes("json", {"decoder": "json.decoder:JSONDecoder"})
