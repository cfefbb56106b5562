"""Settings that hold in a ``with`` block: a stack per class and thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tilesmith.relay.qnn.op.requantize import RequantizeConfig
from tilesmith.relay.quantize.config import QConfig
from tilesmith.support.scopes import Scoped


class Setting(Scoped):
    pass


class Other(Scoped):
    pass


def test_the_innermost_one_holds():
    with Setting() as outer:
        with pytest.raises(KeyError), Setting() as inner:
            assert Setting.innermost() is inner and Other.innermost() is None
            raise KeyError
        assert Setting.innermost() is outer
    assert Setting.innermost() is None


@pytest.mark.parametrize("kind", [RequantizeConfig, QConfig])
def test_other_threads_have_their_own(kind):
    defaults = kind.current()
    with kind() as own, ThreadPoolExecutor(1) as pool:
        assert kind.current() is own
        assert pool.submit(kind.current).result() is defaults
