"""Calls as scripts of older versions spell them."""

import pytest

from tilesmith.ir import structural_equal
from tilesmith.script import tir as T
from tilesmith.support.errors import ScriptError


def test_operators_take_the_dtype_that_they_have_anyway():
    @T.prim_func
    def old(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.max(T.exp(A[i], dtype="float32"), T.float32(0), dtype="float32")
            T.evaluate(T.call_extern("log_it", A[i], dtype="int32"))
            T.evaluate(T.tvm_storage_sync("shared", dtype="int32"))

    @T.prim_func
    def new(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.max(T.exp(A[i]), T.float32(0))
            T.evaluate(T.call_extern("int32", "log_it", A[i]))
            T.evaluate(T.tvm_storage_sync("shared"))

    assert structural_equal(old.with_attr("global_symbol", "new"), new)


def test_functions_of_the_user_keep_their_arguments():
    def scaled(x):
        return x * 2

    with pytest.raises(ScriptError, match="unexpected keyword argument 'dtype'"):

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = scaled(A[0], dtype="float32")
