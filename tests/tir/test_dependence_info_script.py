"""Dependences between blocks, asked of a module without a schedule."""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.script import tir as T
from tilesmith.tir.analysis.block_scope import DepKind
from tilesmith.tir.schedule import StmtSRef
from tilesmith.tir.schedule.block_dependence_info import BlockDependenceInfo


@T.prim_func
def chain(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = B[v]


def test_dependences_of_a_module():
    info = BlockDependenceInfo(IRModule({"main": chain}))
    root = chain.body.block
    first, second = [loop.body.block for loop in root.body.seq]
    scope = info.get_block_scope(info.get_sref(root))
    (found,) = scope.get_deps_by_src(info.get_sref(first))
    assert isinstance(found.dst, StmtSRef) and found.kind == DepKind.RAW
    assert found.dst == info.get_sref(second)
    assert not scope.get_deps_by_dst(info.get_sref(first))
