"""Tensor programs that exercise lowering, with the sizes that their symbols take in the tests.

``PROGRAMS``: name → (function, numbers for its symbolic sizes). The arrays of a program are filled
at random by ``harness``; sizes are odd on purpose.
"""

from tilesmith.script import tir as T


@T.prim_func
def matmul(
    A: T.Buffer((5, 9), "float32"), B: T.Buffer((9, 7), "float32"), C: T.Buffer((5, 7), "float32")
):
    T.func_attr({"global_symbol": "matmul", "tir.noalias": True})
    for i, j, k in T.grid(5, 7, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def padded_convolution(
    A: T.Buffer((1, 3, 7, 9), "float32"),
    W: T.Buffer((5, 3, 3, 3), "float32"),
    C: T.Buffer((1, 5, 7, 9), "float32"),
):
    T.func_attr({"global_symbol": "padded_convolution", "tir.noalias": True})
    P = T.alloc_buffer((1, 3, 9, 11))
    for n, c, h, w in T.grid(1, 3, 9, 11):
        with T.block("P"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            P[vn, vc, vh, vw] = T.if_then_else(
                1 <= vh and vh < 8 and 1 <= vw and vw < 10, A[vn, vc, vh - 1, vw - 1], T.float32(0)
            )
    for n, o, h, w, c, y, x in T.grid(1, 5, 7, 9, 3, 3, 3):
        with T.block("C"):
            vn, vo, vh, vw, vc, vy, vx = T.axis.remap("SSSSRRR", [n, o, h, w, c, y, x])
            with T.init():
                C[vn, vo, vh, vw] = T.float32(0)
            C[vn, vo, vh, vw] = C[vn, vo, vh, vw] + P[vn, vc, vh + vy, vw + vx] * W[vo, vc, vy, vx]


@T.prim_func
def tiled_with_tail(A: T.Buffer((10, 13), "float32"), B: T.Buffer((10, 13), "float32")):
    """Split with a predicate, a vectorized inner loop that crosses the border."""
    T.func_attr({"global_symbol": "tiled_with_tail", "tir.noalias": True})
    for i in T.parallel(10):
        for j0 in range(2):
            for j1 in T.vectorized(8):
                with T.block("B"):
                    vi = T.axis.spatial(10, i)
                    vj = T.axis.spatial(13, j0 * 8 + j1)
                    T.where(j0 * 8 + j1 < 13)
                    B[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)


@T.prim_func
def cached_tile(A: T.Buffer((8, 24), "float32"), B: T.Buffer((8, 24), "float32")):
    """A local tile that is declared with the whole shape and shrinks."""
    T.func_attr({"global_symbol": "cached_tile", "tir.noalias": True})
    L = T.alloc_buffer((8, 24), scope="local")
    for i0, j0 in T.grid(2, 3):
        for i1 in T.unroll(4):
            for j1 in T.vectorized(8):
                with T.block("L"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(24, j0 * 8 + j1)
                    L[vi, vj] = A[vi, vj] + T.float32(1)
        for i1 in T.unroll(4):
            for j1 in T.vectorized(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(24, j0 * 8 + j1)
                    B[vi, vj] = L[vi, vj] * L[vi, vj]


@T.prim_func
def register_tile(
    A: T.Buffer((8, 11), "float32"),
    B: T.Buffer((11, 16), "float32"),
    C: T.Buffer((8, 16), "float32"),
):
    """A matmul with a tile of accumulators in loops that stay for the back end to unroll."""
    T.func_attr({"global_symbol": "register_tile", "tir.noalias": True})
    D = T.alloc_buffer((8, 16), scope="local")
    for i0 in T.parallel(2):
        for i1 in T.unroll(4, annotations={"pragma_unroll_explicit": 0}):
            for j in T.vectorized(16):
                with T.block("D_init"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(16, j)
                    D[vi, vj] = T.float32(0)
        for k in range(11):
            for i1 in T.unroll(4, annotations={"pragma_unroll_explicit": 0}):
                for j in T.vectorized(16):
                    with T.block("D_update"):
                        vi = T.axis.spatial(8, i0 * 4 + i1)
                        vj = T.axis.spatial(16, j)
                        vk = T.axis.reduce(11, k)
                        D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
        for i1 in T.unroll(4, annotations={"pragma_unroll_explicit": 0}):
            for j in T.vectorized(16):
                with T.block("C"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(16, j)
                    C[vi, vj] = T.max(D[vi, vj], T.float32(0))


@T.prim_func
def softmax(A: T.Buffer((3, 19), "float32"), B: T.Buffer((3, 19), "float32")):
    T.func_attr({"global_symbol": "softmax", "tir.noalias": True})
    M = T.alloc_buffer((3,))
    E = T.alloc_buffer((3, 19))
    S = T.alloc_buffer((3,))
    for i, k in T.grid(3, 19):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid(3, 19):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.exp(A[vi, vj] - M[vi])
    for i, k in T.grid(3, 19):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + E[vi, vk]
    for i, j in T.grid(3, 19):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = E[vi, vj] / S[vi]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "symbolic", "tir.noalias": True})
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (m, n))
    X = T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vj, vi] * T.float32(3)


@T.prim_func
def wide_indices(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "wide_indices", "tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (T.int64(6), n))
    B = T.match_buffer(b, (n, T.int64(6)))
    for i, j in T.grid(T.int64(6), n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj, vi] = A[vi, vj] - T.float32(1)


@T.prim_func
def matched(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4, 12), "float32")):
    """A region under another name, with symbolic strides and offset."""
    T.func_attr({"global_symbol": "matched", "tir.noalias": True})
    for i, j in T.grid(4, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj * 4 : vj * 4 + 4])
            T.writes(B[vi, vj * 4 : vj * 4 + 4])
            source = T.match_buffer(A[vi, vj * 4 : vj * 4 + 4], (4,), offset_factor=1)
            target = T.match_buffer(B[vi, vj * 4 : vj * 4 + 4], (4,), offset_factor=1)
            for k in range(4):
                target[k] = source[3 - k] * T.float32(2)


@T.prim_func
def argmax(
    A: T.Buffer((5, 11), "float32"), best: T.Buffer((5,), "float32"), where: T.Buffer((5,), "int32")
):
    T.func_attr({"global_symbol": "argmax", "tir.noalias": True})
    for i, k in T.grid(5, 11):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                best[vi] = T.min_value("float32")
                where[vi] = -1
            if A[vi, vk] > best[vi]:
                best[vi] = A[vi, vk]
                where[vi] = vk


@T.prim_func
def vector_oddities(
    A: T.Buffer((40,), "float32"),
    idx: T.Buffer((8,), "int32"),
    B: T.Buffer((40,), "float32"),
    S: T.Buffer((2,), "float32"),
):
    """Gather, scatter, strides, lane conditions, reductions into one element, inner loops."""
    T.func_attr({"global_symbol": "vector_oddities", "tir.noalias": True})
    for i in T.vectorized(8):
        B[i] = A[idx[i]]
    for i in T.vectorized(8):
        B[8 + i * 2] = A[i * 3]
        B[9 + i * 2] = A[39 - i]
    for i in T.vectorized(8):
        if A[i] > T.float32(0.5):
            B[24 + i] = A[i] + A[8 + i]
        else:
            B[24 + i] = T.if_then_else(i < 4, A[i + 30], T.float32(-1)) + T.float32(i)
    S[0] = T.float32(0)
    for i in T.vectorized(8):
        S[0] = S[0] + A[i]
    S[1] = T.float32(0)
    for i in T.vectorized(8):
        for k in range(i + 1):
            S[1] = S[1] + A[k]
    for i in T.vectorized(8):
        B[32 + i // 2] = A[i // 4 + 1]
        B[36 + i % 4] = A[i]


@T.prim_func
def long_vectors(A: T.Buffer((3, 131), "float32"), B: T.Buffer((3, 131), "float32")):
    T.func_attr({"global_symbol": "long_vectors", "tir.noalias": True})
    for i in range(3):
        for j in T.vectorized(131):
            B[i, j] = T.tanh(A[i, j]) + T.sigmoid(A[i, 130 - j])


@T.prim_func
def selects(
    A: T.Buffer((12,), "float32"),
    N: T.Buffer((12,), "int32"),
    B: T.Buffer((12,), "float32"),
    M: T.Buffer((12,), "int32"),
):
    """Select of what must not always be evaluated, also in vectors; integer division by zero."""
    T.func_attr({"global_symbol": "selects", "tir.noalias": True})
    for i in range(12):
        B[i] = T.Select(i > 2, A[i - 3], T.float32(7))
    for i in T.vectorized(12):
        M[i] = T.if_then_else(N[i] > 0, 100 // N[i], -1) + T.Select(i < 11, N[i + 1], 0)


@T.prim_func
def reuse(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    """Allocations that can share memory, in a loop and outside."""
    T.func_attr({"global_symbol": "reuse", "tir.noalias": True})
    X = T.alloc_buffer((32,))
    Y = T.alloc_buffer((32,))
    Z = T.alloc_buffer((32,))
    for i in range(32):
        X[i] = A[i] + T.float32(1)
    for i in range(32):
        Y[i] = X[i] * T.float32(2)
    for i in range(32):
        Z[i] = Y[i] - X[31 - i]
    for t in range(3):
        for i in range(32):
            Y[i] = Z[i] + T.float32(t)
        for i in range(32):
            Z[i] = Y[31 - i] * T.float32(0.5)
    for i in range(32):
        B[i] = Z[i]


@T.prim_func
def unrolled(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")):
    T.func_attr({"global_symbol": "unrolled", "tir.noalias": True})
    for i in T.serial(3, annotations={"pragma_auto_unroll_max_step": 16}):
        for r in range(2):
            for j in range(4):
                B[i * 2 + r, j] = A[5 - i * 2 - r, j]
    for i in T.unroll(6):
        for j in range(4):
            x: T.float32 = A[i, j]
            B[i, j] = B[i, j] + x * x


@T.prim_func
def half_and_bool(
    A: T.Buffer((3, 7), "float16"), B: T.Buffer((3, 7), "float16"), C: T.Buffer((3, 7), "bool")
):
    T.func_attr({"global_symbol": "half_and_bool", "tir.noalias": True})
    for i, j in T.grid(3, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj]) + T.float16(1)
            C[vi, vj] = A[vi, vj] > T.float16(0.25)


@T.prim_func
def no_dimensions(A: T.Buffer((), "float32"), B: T.Buffer((3,), "float32")):
    T.func_attr({"global_symbol": "no_dimensions", "tir.noalias": True})
    for i in range(3):
        with T.block("B"):
            vi = T.axis.spatial(3, i)
            B[vi] = A[()] * T.float32(2)


PROGRAMS = {
    program.attrs["global_symbol"]: (program, sizes)
    for program, sizes in (
        (matmul, {}),
        (padded_convolution, {}),
        (tiled_with_tail, {}),
        (cached_tile, {}),
        (register_tile, {}),
        (softmax, {}),
        (symbolic, {"n": 5, "m": 3}),
        (wide_indices, {"n": 7}),
        (matched, {}),
        (argmax, {}),
        (vector_oddities, {}),
        (long_vectors, {}),
        (selects, {}),
        (reuse, {}),
        (unrolled, {}),
        (half_and_bool, {}),
        (no_dimensions, {}),
    )
}
