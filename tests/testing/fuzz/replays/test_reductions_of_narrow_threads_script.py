"""pass: tir.BF16ComputeLegalize: then running fails (UnsupportedError)

Found by ``tilesmith fuzz tir``, seed 9305594.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# tvm_thread_allreduce: a result goes to an element of a buffer
#   in the function 'main'
ARGUMENTS = [[{'name': 'T0', 'shape': [1], 'dtype': 'bfloat16'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((1,), "bfloat16")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads()
            T.writes(T0[v1])
            with T.init():
                T0[v1] = T.bfloat16(-338953138925153547590470800371487866880.0)
            T0[v1] = T.max(T0[v1], T.bfloat16(1.0))


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    sch.bind(l1, "threadIdx.x")


def test_replay():
    replay.check(
        main,
        schedule,
        ARGUMENTS,
        "pass",
        ["llvm"],
        extra=[["tir.FlattenBuffer", "BF16ComputeLegalize"]],
    )
