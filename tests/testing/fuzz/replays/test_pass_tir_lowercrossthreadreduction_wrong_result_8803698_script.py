"""pass: tir.LowerCrossThreadReduction: wrong result

Found by ``tilesmith fuzz tir``, seed 8803698.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 2 of 4 elements differ, first at [0, 0]: 1515870810 instead of 3
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A2', 'shape': [2, 2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [2, 2], 'dtype': 'int32'},
  {'name': 'T3', 'shape': [1, 1], 'dtype': 'float32'},
  {'name': 'T2', 'shape': [3, 1], 'dtype': 'float32', 'low': -4, 'high': 5}],
 [{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A2', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'},
  {'name': 'T3', 'shape': [1, 1], 'dtype': 'float32'},
  {'name': 'T2', 'shape': [3, 1], 'dtype': 'float32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "float32"),
    A2_handle: T.handle,
    T0: T.Buffer((1, 1), "float32"),
    T1_handle: T.handle,
    T3: T.Buffer((1, 1), "float32"),
    T2: T.Buffer((3, 1), "float32"),
):
    T.func_attr({"tir.noalias": True})
    d = T.int32()
    A2 = T.match_buffer(A2_handle, (d, d))
    T1 = T.match_buffer(T1_handle, (d, d), "int32")
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.Max(A0[v0, v1], A0[v0, v1])
    for i0, i1, i2 in T.grid(d, d, d):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + T.Cast("int32", A2[v0, v2])
    for i0, i1, i2 in T.grid(1, 1, 3):
        with T.block("B3"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T2[0, v1])
            T.writes(T3[v0, v1])
            with T.init():
                T3[v0, v1] = T.float32(340282346638528859811704183484516925440.0)
            T3[v0, v1] = T.min(T3[v0, v1], T2[0, v1])


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    b1, b2, b3 = sch.get_child_blocks(b0)
    l4, l5 = sch.get_loops(b1)
    l6 = sch.fuse(l4, l5)
    l7, l8 = sch.split(l6, [None, 16])
    sch.bind(l7, "blockIdx.x")
    sch.bind(l8, "threadIdx.x")
    b9 = sch.get_block("root", func_name="main")
    b10, b11, b12 = sch.get_child_blocks(b9)
    l13, l14, l15 = sch.get_loops(b11)
    l16 = sch.fuse(l13, l14)
    l17, l18, l19, l20 = sch.split(l16, [None, 2, 16, 1])
    sch.bind(l17, "blockIdx.x")
    sch.bind(l18, "vthread.x")
    sch.bind(l19, "threadIdx.x")
    b21 = sch.get_block("root", func_name="main")
    b22, b23, b24 = sch.get_child_blocks(b21)
    l25, l26, l27, l28, l29 = sch.get_loops(b23)
    b30 = sch.cache_write(b23, 0, "local")
    sch.reverse_compute_at(b30, l27)
    b31 = sch.get_block("root", func_name="main")
    b32, b33, b34, b35 = sch.get_child_blocks(b31)
    l36, l37, l38 = sch.get_loops(b35)
    l39, l40, l41 = sch.get_loops(b35)
    sch.reorder(l39, l40, l38)
    l42 = sch.fuse(l39, l40)
    l43, l44 = sch.split(l42, [None, 2])
    sch.bind(l44, "threadIdx.y")
    sch.bind(l43, "blockIdx.x")
    l45, l46 = sch.split(l38, [None, 16])
    sch.bind(l46, "threadIdx.x")
    b47 = sch.get_block("root", func_name="main")
    b48, b49, b50, b51 = sch.get_child_blocks(b47)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")
