"""primitive: Blockize: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads T_[_:_, _ -
v__init:_ - v__init + _], which it does)

Found by ``tilesmith fuzz tir``, seed 8003673.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B1_init' of 'main' reads T0[0:1, 1 - v1_init:1 - v1_init + 1], which it
# does not declare
#   File "/tmp/fz6/tilesmith/tir/schedule/block_methods.py", line 59, in blockize
#     self._record("Blockize", [inputs], [bool(preserve_unit_iters)], [block])
#   File "/tmp/fz6/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/fz6/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/fz6/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'T2', 'shape': [1, 2], 'dtype': 'int32'},
  {'name': 'T0', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(T2: T.Buffer((1, 2), "int32"), T0: T.Buffer((2, 2), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((1, 2), "int32")
    for i0, i1, i2 in T.grid(1, 2, 2):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[0, v1])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 2147483647
            T1[v0, v1] = T.min(T1[v0, v1], T0[0, v1])
    for i0, i1 in T.grid(1, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[v0, v1], T0[0, 1 - v1])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T.min(T1[v0, v1], T0[0, 1 - v1] // 7)


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (b1,) = sch.get_consumers(b0)
    sch.fuse_reduction_epilogue(b0, b1)
    b2 = sch.get_block("B1", func_name="main")
    l3, l4, l5 = sch.get_loops(b2)
    sch.blockize(l3)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
