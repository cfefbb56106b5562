"""pass: tir.LowerDeviceKernelLaunch: raises VerifyError in tir/analysis/well_formed.py:fail
(the variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 6002609.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'cse_var_1' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the function 'main'
#   the program:
#   (...)
#       T.func_attr({"target": T.target({"kind": "cuda", "keys": ["cuda", "gpu"],
# "max_num_threads": 1024, "thread_warp_size": 32, "host": {"kind": "llvm", "keys": ["cpu"]}}),
# "tir.is_entry_func": True, "tir.noalias": True})
#   File "/tmp/fz4/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'A2', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}],
 [{'name': 'A2', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A2_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    c = T.int32()
    A2 = T.match_buffer(A2_handle, (c, c))
    T0 = T.match_buffer(T0_handle, (c, c))
    # with T.block("root"):
    for f, i2 in T.grid(c * c, c):
        with T.block("B0"):
            v0 = T.axis.spatial(c, f // c)
            v1 = T.axis.spatial(c, f % c)
            v2 = T.axis.reduce(c, i2)
            T.reads(A2[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0.0)
            T0[v0, v1] = T0[v0, v1] + A2[v0, v2]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3 = sch.get_loops(b1)
    l4, l5, l6 = sch.split(l2, [None, 3, 2])
    sch.bind(l4, "blockIdx.x")
    sch.bind(l5, "threadIdx.x")
    b7 = sch.get_block("root", func_name="main")
    (b8,) = sch.get_child_blocks(b7)
    l9, l10, l11, l12 = sch.get_loops(b8)
    b13 = sch.cache_read(b8, 0, "shared.dyn")
    sch.compute_at(b13, l11)
    l14, l15, l16, l17, l18 = sch.get_loops(b13)
    l19 = sch.fuse(l17, l18)
    l20, l21 = sch.split(l19, [None, 3])
    sch.bind(l21, "threadIdx.x")
    b22 = sch.get_block("root", func_name="main")
    b23, b24 = sch.get_child_blocks(b22)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")
