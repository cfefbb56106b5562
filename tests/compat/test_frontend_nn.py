"""relax.frontend.nn under the names of TVM."""

import sys

import pytest

import tilesmith.compat.tvm
from tilesmith.relax.frontend import nn as own
from tilesmith.support.errors import UnsupportedError


@pytest.fixture
def nn():
    tilesmith.compat.tvm.install()
    try:
        from tvm.relax.frontend import nn

        yield nn
    finally:
        tilesmith.compat.tvm.uninstall()
    assert "tvm" not in sys.modules


def test_modules_answer_under_their_names(nn):
    from tvm.relax.frontend.nn.llm.kv_cache import PagedKVCache
    from tvm.relax.frontend.nn.modules import Linear

    assert Linear is own.Linear and nn.core.Tensor is own.Tensor
    assert issubclass(PagedKVCache, nn.Object)


def test_what_needs_other_devices_says_so(nn):
    from tvm.relax.frontend.nn.llm.kv_cache import FlashInferPagedKVCache

    with pytest.raises(UnsupportedError, match="FlashInfer"):
        FlashInferPagedKVCache()
    with pytest.raises(UnsupportedError, match="several devices"):
        nn.op.ccl_allreduce(None)
