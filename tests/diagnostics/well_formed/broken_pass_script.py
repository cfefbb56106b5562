"""A pass of the user's that takes a loop away and leaves its variable."""

import tilesmith as ts
from tilesmith import ir, tir
from tilesmith.script import tir as T


@T.prim_func
def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[i] * 2.0


@tir.transform.prim_func_pass(opt_level=0, name="RemoveLoops")
def remove_loops(function, module, context):
    return function.with_fields(body=function.body.body)


with ts.ir.transform.PassContext(instruments=[ts.ir.instrument.Verify()]):
    remove_loops(ir.IRModule({"scale": scale}))
