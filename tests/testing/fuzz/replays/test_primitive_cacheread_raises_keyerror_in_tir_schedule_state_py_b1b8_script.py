"""primitive: CacheRead: raises KeyError in tir/schedule/state.py:block_of

Found by ``tilesmith fuzz tir``, seed 5001353.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# KeyError: Block(iter_vars=<2 items>, reads=<1 items>, writes=<1 items>, name_hint='A1_global',
# body=<BufferStore>, init=None, alloc_buffers=<0 items>, match_buffers=<0 items>, annotations=<0
# items>)
#   File "/tmp/fz3/tilesmith/tir/schedule/buffer_methods.py", line 28, in cache_read
#     made = self._run(primitives.cache_read, block_sref, index, storage_scope, consumers)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz3/tilesmith/tir/schedule/base.py", line 245, in _run
#     return primitive(self.state, *args, **kwargs)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/cache.py", line 211, in cache_read
ARGUMENTS = [[{'name': 'A1', 'shape': [4, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [4, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((4, 1), "float32"), T0: T.Buffer((4, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(4, 1, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0)
            T0[v0, v1] = T0[v0, v1] + A1[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.get_block("B0", func_name="main")
    b2 = sch.blockize([b0, b1])
    b3 = sch.get_block("B0", func_name="main")
    sch.cache_read(b3, 1, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
