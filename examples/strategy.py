"""A strategy for a new target: how a board of one's own multiplies matrices, in twenty lines.

python examples/strategy.py
"""

import numpy as np

import tilesmith as ts
from tilesmith import relay, te, topi
from tilesmith.relay.op import OpStrategy
from tilesmith.relay.op.strategy import dense_strategy, wrap_compute_dense, wrap_topi_schedule


def schedule_dense(outs):
    """Schedule a product for the board: 4 rows and 8 columns at a time, columns as a vector."""
    (product,) = outs
    s = te.create_schedule(product.op)
    rows, columns = product.op.axis
    outer, outer_columns, row, column = s[product].tile(rows, columns, 4, 8)
    (k,) = product.op.reduce_axis
    s[product].reorder(outer, outer_columns, k, row, column)
    s[product].vectorize(column)
    return s


@dense_strategy.register("tiny_board")
def dense_of_the_board(attrs, inputs, out_type, target):
    """Offer the board's implementation of nn.dense; the highest plevel wins."""
    strategy = OpStrategy()
    compute, schedule = wrap_compute_dense(topi.nn.dense), wrap_topi_schedule(schedule_dense)
    strategy.add_implementation(compute, schedule, name="dense.tiny_board", plevel=15)
    return strategy


def main() -> None:
    """Build a model for the board, show the kernel that its strategy gave, and run it."""
    x, w = relay.var("x", shape=(16, 32)), relay.var("w", shape=(24, 32))
    model = ts.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))
    lib = relay.build(model, target="llvm -device=tiny_board")
    print(lib.get_lib().get_source("script"))
    a, b = np.random.rand(16, 32).astype("float32"), np.random.rand(24, 32).astype("float32")
    result = lib.get_lib()(ts.nd.array(a), ts.nd.array(b))
    np.testing.assert_allclose(result.numpy(), np.maximum(a @ b.T, 0), rtol=1e-5)


if __name__ == "__main__":
    main()
