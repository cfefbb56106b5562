"""Programs to be scheduled in the tests of the primitives."""

from tilesmith.script import tir as T


@T.prim_func
def elementwise(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
    """A chain of two: ``B = A * 2``, ``C = B + 1``."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((7, 13), "float32")
    for i, j in T.grid(7, 13):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(7, 13):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def elementwise64(
    A: T.Buffer((T.int64(7), T.int64(13)), "float32"),
    C: T.Buffer((T.int64(7), T.int64(13)), "float32"),
):
    """The same chain over 64-bit indices, as graphs make it."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((T.int64(7), T.int64(13)), "float32")
    for i, j in T.grid(T.int64(7), T.int64(13)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(T.int64(7), T.int64(13)):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def matmul(
    A: T.Buffer((9, 11), "float32"), B: T.Buffer((11, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    """``C = A @ B``."""
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(9, 6, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def matmul64(
    A: T.Buffer((T.int64(9), T.int64(11)), "float32"),
    B: T.Buffer((T.int64(11), T.int64(6)), "float32"),
    C: T.Buffer((T.int64(9), T.int64(6)), "float32"),
):
    """``C = A @ B`` over 64-bit indices."""
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(T.int64(9), T.int64(6), T.int64(11)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def matmul_relu(
    A: T.Buffer((9, 11), "float32"), B: T.Buffer((11, 6), "float32"), D: T.Buffer((9, 6), "float32")
):
    """``D = max(A @ B, 0)``."""
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((9, 6), "float32")
    for i, j, k in T.grid(9, 6, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(9, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def stencil(A: T.Buffer((18,), "float32"), C: T.Buffer((14,), "float32")):
    """A filter of width 3 after one of width 3."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


@T.prim_func
def padded(A: T.Buffer((13,), "float32"), C: T.Buffer((13,), "float32")):
    """A padded copy, then a filter over it."""
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((15,), "float32")
    for i in range(15):
        with T.block("P"):
            vi = T.axis.spatial(15, i)
            P[vi] = T.if_then_else(1 <= vi and vi < 14, A[vi - 1], T.float32(0))
    for i in range(13):
        with T.block("C"):
            vi = T.axis.spatial(13, i)
            C[vi] = P[vi] + P[vi + 1] + P[vi + 2]


@T.prim_func
def row_softmax_sums(A: T.Buffer((5, 12), "float32"), C: T.Buffer((5,), "float32")):
    """Two reductions, the second after the first: ``C[i] = sum_k (A[i, k] - max_k A[i, k])``."""
    T.func_attr({"global_symbol": "main"})
    M = T.alloc_buffer((5,), "float32")
    for i, k in T.grid(5, 12):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(5, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + (A[vi, vk] - M[vi])


@T.prim_func
def three_stages(A: T.Buffer((6, 8), "float32"), D: T.Buffer((6, 8), "float32")):
    """``B`` has two consumers, ``D`` reads both ``B`` and ``C``."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((6, 8), "float32")
    C = T.alloc_buffer((6, 8), "float32")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(6, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] * C[vi, vj]


@T.prim_func
def copy_symbolic(a: T.handle, b: T.handle):
    """``B = A + 1`` over a size known at run time."""
    T.func_attr({"global_symbol": "main"})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def scan(A: T.Buffer((10,), "float32"), B: T.Buffer((11,), "float32")):
    """A running sum: the iterations must keep their order."""
    T.func_attr({"global_symbol": "main"})
    for i in range(10):
        with T.block("B"):
            vi = T.axis.opaque(10, i)
            B[vi + 1] = B[vi] + A[vi]


@T.prim_func
def convolution(
    A: T.Buffer((2, 9), "float32"),
    W: T.Buffer((3, 2, 3), "float32"),
    D: T.Buffer((3, 7), "float32"),
):
    """A convolution with a padded input, then ``max(x, 0)``."""
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((2, 11), "float32")
    C = T.alloc_buffer((3, 9), "float32")
    for c, x in T.grid(2, 11):
        with T.block("P"):
            vc, vx = T.axis.remap("SS", [c, x])
            P[vc, vx] = T.if_then_else(1 <= vx and vx < 10, A[vc, vx - 1], T.float32(0))
    for o, x, c, k in T.grid(3, 9, 2, 3):
        with T.block("C"):
            vo, vx, vc, vk = T.axis.remap("SSRR", [o, x, c, k])
            with T.init():
                C[vo, vx] = T.float32(0)
            C[vo, vx] = C[vo, vx] + P[vc, vx + vk] * W[vo, vc, vk]
    for o, x in T.grid(3, 7):
        with T.block("D"):
            vo, vx = T.axis.remap("SS", [o, x])
            D[vo, vx] = T.max(C[vo, vx + 1], T.float32(0))


@T.prim_func
def flattened(A: T.Buffer((6, 5), "float32"), C: T.Buffer((15, 2), "float32")):
    """A matrix flattened, changed, and cut in another way."""
    T.func_attr({"global_symbol": "main"})
    F = T.alloc_buffer((30,), "float32")
    B = T.alloc_buffer((30,), "float32")
    for i in range(30):
        with T.block("F"):
            vi = T.axis.spatial(30, i)
            F[vi] = A[vi // 5, vi % 5]
    for i in range(30):
        with T.block("B"):
            vi = T.axis.spatial(30, i)
            B[vi] = F[vi] * T.float32(2)
    for i, j in T.grid(15, 2):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * 2 + vj] + T.float32(1)


@T.prim_func
def strided(A: T.Buffer((13,), "float32"), C: T.Buffer((6,), "float32")):
    """Windows of 3 at a step of 2, over a shifted copy."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((14,), "float32")
    for i in range(13):
        with T.block("B"):
            vi = T.axis.spatial(13, i)
            B[vi + 1] = A[vi] * T.float32(2)
    for i, k in T.grid(6, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi * 2 + vk + 1]


@T.prim_func
def changed_in_place(A: T.Buffer((8, 3), "float32"), C: T.Buffer((8, 3), "float32")):
    """A parameter is changed, read, and changed again."""
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(8, 3):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[7 - vi, vj] * T.float32(3)
    for i, j in T.grid(8, 3):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * C[vi, vj]
