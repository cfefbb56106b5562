"""pass: tir.CompactBufferAllocation: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 5000066.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# buffer 'index_var_0': a view of shape (4, 3) of int32 does not fit into 4 bytes: buffer is too
# small for requested array
ARGUMENTS = [[{'name': 'T2', 'shape': [4, 4], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T2: T.Buffer((4, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((4,), "float32")
    T1 = T.alloc_buffer((6, 4), "float32")
    for i0, i1 in T.grid(4, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads()
            T.writes(T0[v0])
            with T.init():
                T0[v0] = T.float32(0)
            T0[v0] = T0[v0] + T.float32(0)
    for i0, i1 in T.grid(6, 4):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T0[v1])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T0[v1]
    for i0, i1, i2 in T.grid(4, 4, 3):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T1[v0 + v2, v1])
            T.writes(T2[v0, v1])
            with T.init():
                T2[v0, v1] = T.float32(3.4028234663852886e38)
            T2[v0, v1] = T.min(T2[v0, v1], T1[v0 + v2, v1])


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    b1 = sch.reindex_cache_read(b0, 0, "global", lambda i0, i1, i2: [i2, i0, i1])
    b2 = sch.get_block("T1_global", func_name="main")
    (b3,) = sch.cache_index(b2, "global", 0)
    b4 = sch.get_block("T1_global", func_name="main")
    l5, l6, l7 = sch.get_loops(b4)
    sch.reorder(l5, l7, l6)
    sch.tensorize(l6, "fuzz.copy.float32")
    b8 = sch.get_block("index_0", func_name="main")
    (b9,) = sch.get_consumers(b8)
    l10, l11 = sch.get_loops(b9)
    sch.compute_at(b8, l11)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
