"""A product by fragments from a classic schedule, with tensor intrinsics of its own."""

from tilesmith import te, tir

TILE = 16


def _move(scope, name, source_scope):
    """A tile of the shared memory → a fragment."""
    whole = te.placeholder((TILE, TILE), "float16", name="tile")
    copy = te.compute((TILE, TILE), lambda i, j: whole[i, j], name="copy")
    source = tir.decl_buffer(
        whole.shape, "float16", scope=source_scope, data_alignment=32, offset_factor=256
    )
    target = tir.decl_buffer(
        copy.shape, "float16", scope=scope, data_alignment=32, offset_factor=256
    )

    def body(inputs, outputs):
        maker = tir.ir_builder.create()
        (tile,), (fragment,) = inputs, outputs
        maker.emit(
            tir.call_intrin(
                "handle",
                "tir.tvm_load_matrix_sync",
                fragment.data,
                TILE,
                TILE,
                TILE,
                fragment.elem_offset // 256,
                tile.access_ptr("r"),
                TILE,
                "row_major",
            )  # fmt: skip
        )
        return maker.get()

    return te.decl_tensor_intrin(copy.op, body, name=name, binds={whole: source, copy: target})


def _product():
    a = te.placeholder((TILE, TILE), "float16", name="a")
    b = te.placeholder((TILE, TILE), "float16", name="b")
    k = te.reduce_axis((0, TILE), "k")
    c = te.compute(
        (TILE, TILE),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="c",
    )
    binds = {
        tensor: tir.decl_buffer(
            tensor.shape, tensor.dtype, scope=f"wmma.{role}", data_alignment=32, offset_factor=256
        )
        for tensor, role in ((a, "matrix_a"), (b, "matrix_b"), (c, "accumulator"))
    }

    def body(inputs, outputs):
        (left, right), (result,) = inputs, outputs
        number = result.elem_offset // 256

        def reset():
            maker = tir.ir_builder.create()
            maker.emit(
                tir.call_intrin(
                    "handle", "tir.tvm_fill_fragment", result.data, TILE, TILE, TILE, number, 0.0
                )
            )
            return maker.get()

        def update():
            maker = tir.ir_builder.create()
            maker.emit(
                tir.call_intrin(
                    "handle",
                    "tir.tvm_mma_sync",
                    result.data,
                    number,
                    left.data,
                    left.elem_offset // 256,
                    right.data,
                    right.elem_offset // 256,
                    result.data,
                    number,
                )  # fmt: skip
            )
            return maker.get()

        return update(), reset(), update()

    return te.decl_tensor_intrin(c.op, body, name="product", binds=binds)


def _store():
    results = te.placeholder((TILE, TILE), "float32", name="results")
    copy = te.compute((TILE, TILE), lambda i, j: results[i, j], name="copy")
    source = tir.decl_buffer(
        results.shape, "float32", scope="wmma.accumulator", data_alignment=32, offset_factor=256
    )
    target = tir.decl_buffer(
        copy.shape, "float32", scope="global", data_alignment=32, offset_factor=256
    )

    def body(inputs, outputs):
        maker = tir.ir_builder.create()
        (fragment,), (tile,) = inputs, outputs
        maker.emit(
            tir.call_intrin(
                "handle",
                "tir.tvm_store_matrix_sync",
                fragment.data,
                TILE,
                TILE,
                TILE,
                fragment.elem_offset // 256,
                tile.access_ptr("w"),
                TILE,
                "row_major",
            )  # fmt: skip
        )
        return maker.get()

    return te.decl_tensor_intrin(copy.op, body, name="store", binds={results: source, copy: target})


def classic_product(rows=4, columns=4, depth=4):
    """A product of matrices in tiles of 16 by 16: schedule and tensors. One warp has 2x2 tiles."""
    a = te.placeholder((rows, depth, TILE, TILE), "float16", name="A")
    b = te.placeholder((depth, columns, TILE, TILE), "float16", name="B")
    k, kk = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, TILE), "kk")
    c = te.compute(
        (rows, columns, TILE, TILE),
        lambda i, j, ii, jj: te.sum(
            a[i, k, ii, kk].astype("float32") * b[k, j, kk, jj].astype("float32"), axis=[k, kk]
        ),
        name="C",
    )
    s = te.create_schedule(c.op)
    shared = [s.cache_read(tensor, "shared", [c]) for tensor in (a, b)]
    fragments = [
        s.cache_read(tensor, f"wmma.{role}", [c])
        for tensor, role in zip(shared, ("matrix_a", "matrix_b"))
    ]
    results = s.cache_write(c, "wmma.accumulator")
    i, j, ii, jj = s[c].op.axis
    i, i_in = s[c].split(i, factor=2)
    j, j_in = s[c].split(j, factor=2)
    s[c].reorder(i, j, i_in, j_in, ii, jj)
    s[c].bind(i, te.thread_axis("blockIdx.y"))
    s[c].bind(j, te.thread_axis("blockIdx.x"))
    s[c].tensorize(ii, _store())
    s[results].compute_at(s[c], j)
    i, j, ii, jj = s[results].op.axis
    k, kk = s[results].op.reduce_axis
    s[results].reorder(k, i, j, ii, jj, kk)
    s[results].tensorize(ii, _product())
    for tensor, role in zip(fragments, ("matrix_a", "matrix_b")):
        s[tensor].compute_at(s[results], k)
        s[tensor].tensorize(s[tensor].op.axis[2], _move(f"wmma.{role}", "load", "shared"))
    for tensor in shared:
        s[tensor].compute_at(s[results], k)
        i, j, ii, jj = s[tensor].op.axis
        fused = s[tensor].fuse(ii, jj)
        outer, vector = s[tensor].split(fused, factor=8)
        _, lane = s[tensor].split(outer, factor=32)
        s[tensor].bind(lane, te.thread_axis("threadIdx.x"))
        s[tensor].vectorize(vector)
    return s, [a, b, c]
