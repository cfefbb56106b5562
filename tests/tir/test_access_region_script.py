"""The regions that blocks are found to access."""

from tilesmith.script import tir as T
from tilesmith.tir.analysis import get_block_access_region


def test_buffers_declared_inside_of_a_block_are_its_own():
    """What is declared over memory of the block is no region of it; over other memory, it is a
    use of that whole buffer."""

    @T.prim_func
    def main(A: T.Buffer((16, 4), "float32"), B: T.Buffer((16, 4), "float32")):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                kept = T.alloc_buffer((8,), "float32", scope="local")
                width: T.int32 = T.min(16, vi)
                view = T.decl_buffer((2, width), "float32", data=kept.data)
                flat = T.decl_buffer((64,), "float32", data=A.data)
                view[1, 0] = flat[vi]
                B[vi, 0] = view[1, 0]

    block = main.body.block.body.body.block
    (region_A, region_B) = main.buffer_map.values()
    reads, writes, opaque = get_block_access_region(block, {region_A.data: region_A})
    assert [str(region) for region in reads] == ["A[0:16, 0:4]"]
    assert [str(region) for region in writes] == ["B[vi, 0]"]
    assert not opaque
