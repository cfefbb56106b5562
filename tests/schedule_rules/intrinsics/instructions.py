"""What instructions do, written with numpy: for the interpreter, which does not know them."""

import ml_dtypes
import numpy as np

from tilesmith.runtime.dtype import DataType


def vpdpbusd(sums, a, b):
    products = a.view("uint8").astype("int64") * b.astype("int64")
    return (sums + products.reshape(-1, 4).sum(1)).astype("int32")


def pmaddwd(a, b):
    products = a.view("int16").astype("int64") * b.astype("int64")
    return products.reshape(-1, 2).sum(1).astype("int32")


def dpbf16ps(sums, a, b):
    a, b = [x.view(ml_dtypes.bfloat16).astype("float32") for x in (a, b)]
    return (sums + (a * b).reshape(-1, 2).sum(1)).astype("float32")


def smull(a, b):
    return a.view("int8").astype("int16") * b.astype("int16")


def saddlp(a):
    return a.astype("int32").reshape(-1, 2).sum(1)


def addp(a, b):
    return np.concatenate([a.reshape(-1, 2).sum(1), b.reshape(-1, 2).sum(1)])


def dot(kind):
    def compute(sums, a, b):
        products = a.view(kind).astype("int64") * b.view(kind).astype("int64")
        return (sums + products.reshape(4, 4).sum(1)).astype(sums.dtype)

    return compute


def matrix(sums, a, b):
    product = a.reshape(2, 8).astype("int64") @ b.reshape(2, 8).astype("int64").T
    return (sums.reshape(2, 2) + product).reshape(-1).astype(sums.dtype)


def sdot4(a, b, total, clamp):
    values = [np.array([x], "int32").view("int8").astype("int64") for x in (a, b)]
    return int(total + (values[0] * values[1]).sum())


class Amx:
    """Tiles of 16 rows of 64 bytes."""

    def __init__(self):
        self.tiles = {}
        self.is_configured = False

    def configure(self, setting):
        bytes_ = setting.view(DataType("uint8"), (64,), None, 0)
        assert bytes_[0] == 1 and list(bytes_[16:22]) == [64, 0, 64, 0, 64, 0]
        assert list(bytes_[48:51]) == [16, 16, 16] and bytes_[51:].sum() == 0
        self.is_configured = True

    def load(self, tile, place, stride):
        assert self.is_configured
        self.tiles[tile] = place.view(DataType("uint8"), (16, 64), (stride, 1), 0).copy()

    def store(self, tile, place, stride):
        place.view(DataType("uint8"), (16, 64), (stride, 1), 0)[:] = self.tiles[tile]

    def multiply(self, a_dtype, b_dtype, c_dtype, group):
        def compute(c, a, b):
            left = self.tiles[a].view(a_dtype).astype(c_dtype)
            right = (
                self.tiles[b].view(b_dtype).astype(c_dtype)
            )  # (k // group, j * group + k % group)
            right = right.reshape(16, 16, group).transpose(0, 2, 1).reshape(16 * group, 16)
            self.tiles[c] = (self.tiles[c].view(c_dtype) + left @ right).view("uint8")

        return compute

    def release(self):
        self.is_configured = False


def instructions():
    """LLVM's names of the instructions."""
    amx = Amx()
    return {
        "llvm.x86.avx512.vpdpbusd.512": vpdpbusd,
        "llvm.x86.avx512.vpdpbusd.256": vpdpbusd,
        "llvm.x86.avx512.pmaddw.d.512": pmaddwd,
        "llvm.x86.avx2.pmadd.wd": pmaddwd,
        "llvm.x86.avx512bf16.dpbf16ps.512": dpbf16ps,
        "llvm.aarch64.neon.smull.v8i16": smull,
        "llvm.aarch64.neon.saddlp.v4i32.v8i16": saddlp,
        "llvm.aarch64.neon.addp.v4i32": addp,
        "llvm.aarch64.neon.sdot.v4i32.v16i8": dot("int8"),
        "llvm.aarch64.neon.udot.v4i32.v16i8": dot("uint8"),
        "llvm.aarch64.neon.smmla.v4i32.v16i8": matrix,
        "llvm.aarch64.neon.ummla.v4i32.v16i8": matrix,
        "llvm.aarch64.neon.usmmla.v4i32.v16i8": matrix,
        "llvm.amdgcn.sdot4": sdot4,
        "llvm.x86.ldtilecfg": amx.configure,
        "llvm.x86.tileloadd64": amx.load,
        "llvm.x86.tilestored64": amx.store,
        "llvm.x86.tilerelease": amx.release,
        "llvm.x86.tdpbusd": amx.multiply("uint8", "int8", "int32", 4),
        "llvm.x86.tdpbssd": amx.multiply("int8", "int8", "int32", 4),
        "llvm.x86.tdpbf16ps": amx.multiply(ml_dtypes.bfloat16, ml_dtypes.bfloat16, "float32", 2),
    }


class Fragments:
    """Fragments of matrices, for the operators of wmma."""

    def __init__(self):
        self.tiles = {}

    @staticmethod
    def key(fragment, index):
        return (fragment.memory.__array_interface__["data"][0], index)

    @staticmethod
    def shape(scope, m, n, k):
        return {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n)}.get(scope, (m, n))

    def load(self, scope, dtype):
        def compute(fragment, m, n, k, index, place, stride, layout):
            assert layout in ("row_major", "col_major")
            rows, columns = self.shape(scope, m, n, k)
            steps = (stride, 1) if layout == "row_major" else (1, stride)
            tile = place.view(dtype, (rows, columns), steps, 0).copy()
            self.tiles[self.key(fragment, index)] = tile

        return compute

    def fill(self, fragment, m, n, k, index, value):
        self.tiles[self.key(fragment, index)] = np.full((m, n), value, "float32")

    def multiply(self, d, index_d, a, index_a, b, index_b, c, index_c):
        left, right = self.tiles[self.key(a, index_a)], self.tiles[self.key(b, index_b)]
        total = self.tiles[self.key(c, index_c)]
        product = left.astype("float32") @ right.astype("float32")
        self.tiles[self.key(d, index_d)] = total + product

    def store(self, dtype):
        def compute(fragment, m, n, k, index, place, stride, layout):
            view = place.view(dtype, (m, n), (stride, 1), 0)
            view[:] = self.tiles[self.key(fragment, index)].astype(view.dtype)

        return compute

    def operators(self, source, target):
        """For ``OPERATORS`` of the interpreter."""
        return {
            "tir.tvm_load_matrix_sync": lambda dtype, args: self.load(
                args[0].storage_scope, DataType(source)
            ),
            "tir.tvm_fill_fragment": lambda dtype, args: self.fill,
            "tir.tvm_mma_sync": lambda dtype, args: self.multiply,
            "tir.tvm_store_matrix_sync": lambda dtype, args: self.store(DataType(target)),
        }
