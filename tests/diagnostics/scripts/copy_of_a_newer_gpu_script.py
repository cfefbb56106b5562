"""A copy in the background for a GPU that has none."""

import tilesmith
from tilesmith.script import tir as T


@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), "float32", scope="shared")
    T.ptx_cp_async("float32", S.data, tx, A.data, tx, 4)
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    T.tvm_storage_sync("shared")
    B[tx] = S[31 - tx]


tilesmith.build(main, target="cuda -arch=sm_70")
