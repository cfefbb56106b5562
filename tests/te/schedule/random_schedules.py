"""Random programs of tensor expressions, and random sequences of primitives of classic schedules.

``pick`` draws numbers and elements of lists: from hypothesis in tests, from a seed in campaigns.
"""

import random

import numpy as np

import tilesmith
from tilesmith import arith, te, tir
from tilesmith.ir import structural_equal
from tilesmith.support.errors import ScheduleError
from tilesmith.te.schedule import AttachType
from tilesmith.tir.interpreter import run


class Pick:
    """Draws from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, low, high):
        return self.random.randint(low, high)

    def one(self, items):
        return items[self.number(0, len(items) - 1)]


class HypothesisPick(Pick):
    """Draws what hypothesis can make smaller."""

    def __init__(self, data, strategies):
        self.data, self.strategies = data, strategies

    def number(self, low, high):
        return self.data.draw(self.strategies.integers(low, high))


# Programs


def _is_same_shape(x, y):
    return structural_equal(list(x.shape), list(y.shape))


def elementwise(pick, name, x, y):
    if _is_same_shape(x, y) and x is not y:
        return te.compute(x.shape, lambda *i: te.max(x(*i), y(*i)) + 1.0, name=name)
    return te.compute(x.shape, lambda *i: x(*i) * 2.0 - 1.0, name=name)


def broadcast(pick, name, x, y):
    if len(y.shape) == 1 and len(x.shape) == 2 and structural_equal(y.shape[0], x.shape[0]):
        return te.compute(x.shape, lambda i, j: x[i, j] - y[i], name=name)
    return elementwise(pick, name, x, y)


def mirrored(pick, name, x, _y):
    last = x.shape[-1] - 1
    if len(x.shape) == 2 and pick.number(0, 1):
        return te.compute(x.shape[::-1], lambda i, j: x[j, i] + 1.0, name=name)
    return te.compute(x.shape, lambda *i: x(*i[:-1], last - i[-1]) * 3.0, name=name)


def _least(size):
    """The least value that a size may have: symbolic ones are longer than all windows together."""
    return size.value if isinstance(size, tir.IntImm) else 3


def stencil(pick, name, x, _y):
    reach = min(pick.number(1, 2), _least(x.shape[-1]) - 1)
    shape = [*x.shape[:-1], x.shape[-1] - reach]
    return te.compute(shape, lambda *i: x(*i) + x(*i[:-1], i[-1] + reach), name=name)


def padded(pick, name, x, _y):
    before, after = pick.number(0, 2), pick.number(0, 2)
    size = x.shape[-1]
    shape = [*x.shape[:-1], size + before + after]

    def element(*i):
        inside = te.all(i[-1] >= before, i[-1] < size + before)
        return te.if_then_else(inside, x(*i[:-1], i[-1] - before), 0.5)

    return te.compute(shape, element, name=name)


def summed(pick, name, x, _y):
    size = x.shape[-1]
    k = te.reduce_axis((pick.number(0, min(1, _least(size) - 1)), size), name=f"k{name}")
    if len(x.shape) > 1:
        return te.compute(x.shape[:-1], lambda *i: te.sum(x(*i, k), axis=k), name=name)
    return te.compute((1,), lambda i: te.sum(x[k], axis=k), name=name)


def window(pick, name, x, _y):
    size = min(pick.number(1, 3), _least(x.shape[-1]))
    k = te.reduce_axis((0, size), name=f"w{name}")
    shape = [*x.shape[:-1], x.shape[-1] - (size - 1)]
    return te.compute(shape, lambda *i: te.max(x(*i[:-1], i[-1] + k), axis=k), name=name)


def product(pick, name, x, _y):
    if len(x.shape) != 2:
        return summed(pick, name, x, x)
    k = te.reduce_axis((0, x.shape[1]), name=f"k{name}")
    shape = (x.shape[0], x.shape[0])
    return te.compute(shape, lambda i, j: te.sum(x[i, k] * x[j, k], axis=k), name=name)


def extremes(pick, name, x, _y):
    """The smallest and the largest value of each row."""
    if len(x.shape) != 2:
        return summed(pick, name, x, x)
    both = te.comm_reducer(
        lambda a, b: (te.min(a[0], b[0]), te.max(a[1], b[1])),
        lambda t0, t1: (tir.max_value(t0), tir.min_value(t1)),
    )
    k = te.reduce_axis((0, x.shape[1]), name=f"k{name}")
    low, high = te.compute(x.shape[:1], lambda i: both((x[i, k], x[i, k]), axis=k), name=name)
    return pick.one([low, high])


KINDS = (
    elementwise, broadcast, mirrored, stencil, padded, summed, window, product, extremes,
)  # fmt: skip


class Program:
    """An input, the results of two to four operations (those that no other one reads), and values
    of the input's sizes, which may be symbolic.
    """

    def __init__(self, pick):
        self.sizes = (pick.number(9, 11), pick.number(9, 12))
        self.is_symbolic = pick.number(0, 3) == 3
        if not self.is_symbolic:
            self.sizes = (pick.number(1, 9), pick.number(2, 11))
        shape = (te.var("n"), te.var("m")) if self.is_symbolic else self.sizes
        self.input = te.placeholder(shape, name="A")
        tensors = [self.input]
        for name in "BCDE"[: pick.number(2, 4)]:
            x, y = tensors[-pick.number(1, min(2, len(tensors)))], pick.one(tensors)
            tensors.append(pick.one(KINDS)(pick, name, x, y))
        read = {tensor.op for one in tensors for tensor in one.op.input_tensors}
        self.results = [one for one in tensors[1:] if one.op not in read]
        self.arguments = [self.input, *self.results]

    def arrays(self):
        count = self.sizes[0] * self.sizes[1]
        array = ((np.arange(count) * 7 + 3) % 11 - 5).astype("float32").reshape(self.sizes)
        values = dict(zip(self.input.shape, self.sizes)) if self.is_symbolic else {}
        simplify = arith.Analyzer().simplify
        shapes = [
            [simplify(tir.stmt_functor.substitute(size, values)).value for size in one.shape]
            for one in self.results
        ]
        return [array, *[np.full(shape, 77, "float32") for shape in shapes]]

    def results_of(self, function):
        arrays = self.arrays()
        run(function, *arrays)
        return arrays[1:]

    def wanted(self):
        """The results of the program without a schedule, written in blocks."""
        return self.results_of(te.create_prim_func(self.arguments))

    def computed(self, schedule):
        """The results of the program by a schedule."""
        return self.results_of(tilesmith.lower(schedule, self.arguments))


# Schedules


def _computed(s):
    return [one for one in s.stages if isinstance(one.op, te.ComputeOp)]


def _with_loops(s):
    return [one for one in _computed(s) if one.attach_type != AttachType.INLINE]


def _readers(s, stage):
    return [one for one in s.stages if any(t.op is stage.op for t in one.op.input_tensors)]


def split(pick, s):
    stage = pick.one(_with_loops(s))
    loop = pick.one(stage.leaf_iter_vars)
    if pick.number(0, 1):
        stage.split(loop, factor=pick.number(1, 6))
    else:
        stage.split(loop, nparts=pick.number(1, 6))


def fuse(pick, s):
    stage = pick.one(_with_loops(s))
    leaves = stage.leaf_iter_vars
    first = pick.number(0, max(0, len(leaves) - 2))
    stage.fuse(*leaves[first : first + 2])


def reorder(pick, s):
    stage = pick.one(_with_loops(s))
    leaves = list(stage.leaf_iter_vars)
    first = leaves.pop(pick.number(0, len(leaves) - 1))
    if leaves:
        stage.reorder(first, pick.one(leaves))


def kind(pick, s):
    stage = pick.one(_with_loops(s))
    which = pick.number(0, 2)
    if which == 0:
        stage.vectorize(stage.leaf_iter_vars[-1])
    elif which == 1:
        stage.unroll(pick.one(stage.leaf_iter_vars))
    else:
        stage.parallel(stage.leaf_iter_vars[0])


def compute_at(pick, s):
    stage = pick.one(_with_loops(s))
    readers = _readers(s, stage)
    if readers:
        parent = readers[-1]
        if parent.leaf_iter_vars:
            stage.compute_at(parent, pick.one(parent.leaf_iter_vars))


def compute_inline(pick, s):
    pick.one(_computed(s)).compute_inline()


def cache_read(pick, s):
    stage = pick.one(s.stages)
    readers = [one.op for one in _readers(s, stage)]
    if readers:
        if pick.number(0, 1):
            readers = [pick.one(readers)]
        tensor = pick.one([t for t in readers[0].input_tensors if t.op is stage.op])
        readers = [one for one in readers if tensor in one.input_tensors]
        copy = s.cache_read(tensor, "global", readers)
        reader = s[readers[-1]]
        if pick.number(0, 1) and reader.leaf_iter_vars:
            s[copy].compute_at(reader, pick.one(reader.leaf_iter_vars))


def cache_write(pick, s):
    stage = pick.one(_with_loops(s))
    outputs = [stage.op.output(k) for k in range(stage.op.num_outputs)]
    made = s.cache_write(outputs if len(outputs) > 1 else outputs[0], "global")
    cache = s[made[0] if isinstance(made, list) else made]
    if pick.number(0, 1) and stage.leaf_iter_vars:
        cache.compute_at(stage, pick.one(stage.leaf_iter_vars))


def rfactor(pick, s):
    stages = [one for one in _with_loops(s) if one.op.reduce_axis]
    if stages:
        stage = pick.one(stages)
        loops = [a for a in stage.leaf_iter_vars if a.iter_type == tir.IterVar.CommReduce]
        if loops:
            made = s.rfactor(stage.op.output(0), pick.one(loops), pick.number(-1, 1))
            part = s[made[0] if isinstance(made, list) else made]
            if pick.number(0, 1):
                part.compute_at(stage, pick.one(stage.leaf_iter_vars))


def transform_layout(pick, s):
    stage = pick.one(_with_loops(s))
    if stage.is_output:
        return
    if len(stage.op.axis) == 2 and pick.number(0, 1):
        stage.transform_layout(lambda i, j: [j, i])
    else:
        size = stage.op.axis[-1].dom.extent
        factors = [f for f in (2, 3) if isinstance(size, tir.IntImm) and size.value % f == 0]
        factor = pick.one([1, *factors])
        stage.transform_layout(lambda *i: [i[-1] // factor, *i[:-1], i[-1] % factor])


def storage_align(pick, s):
    stage = pick.one(_with_loops(s))
    if not stage.layout_transforms:
        stage.storage_align(stage.op.axis[0], pick.number(1, 8), pick.number(0, 3))


def double_buffer(pick, s):
    pick.one(_with_loops(s)).double_buffer()


def rolling_buffer(pick, s):
    stage = pick.one(_with_loops(s))
    if stage.attach_type == AttachType.SCOPE:
        stage.rolling_buffer()


def tile(pick, s):
    stage = pick.one(_with_loops(s))
    if len(stage.leaf_iter_vars) > 1:
        stage.tile(*stage.leaf_iter_vars[:2], pick.number(1, 4), pick.number(1, 4))


def compute_root(pick, s):
    pick.one(_with_loops(s)).compute_root()


def automatic(pick, s):
    pick.one(
        [te.schedule.AutoInlineElemWise, te.schedule.AutoInlineBroadcast,
         te.schedule.AutoInlineInjective]
    )(s)  # fmt: skip


def prefetch(pick, s):
    stage = pick.one(_with_loops(s))
    inputs = stage.op.input_tensors
    if inputs and stage.leaf_iter_vars:
        stage.prefetch(pick.one(inputs), pick.one(stage.leaf_iter_vars), 1)


def predicate(pick, s):
    stage = pick.one(_with_loops(s))
    stage.set_store_predicate(tir.const(True, "bool"))


def group(pick, s):
    stage = pick.one(_with_loops(s))
    inputs = stage.op.input_tensors
    if inputs:
        made = s.create_group(stage.op.output(0), inputs, include_inputs=bool(pick.number(0, 1)))
        readers = _readers(s, stage)
        if len(readers) == 1 and readers[0].leaf_iter_vars:
            made.compute_at(readers[0], pick.one(readers[0].leaf_iter_vars))


STEPS = (
    split, split, split, tile, fuse, fuse, reorder, reorder, kind, compute_at, compute_at,
    compute_at, compute_inline, compute_root, automatic, cache_read, cache_read, cache_write,
    cache_write, rfactor, rfactor, transform_layout, storage_align, double_buffer, rolling_buffer,
    group, prefetch, predicate,
)  # fmt: skip


def bind(pick, s):
    """Run a loop on threads. What threads reduce together they all have afterwards, but only on a
    device, where a launch does not end before its kernel.
    """
    stage = pick.one(_with_loops(s))
    loop = pick.one(stage.leaf_iter_vars)
    tag = pick.one(["blockIdx.x", "threadIdx.x", "threadIdx.x", "threadIdx.y"])
    if loop.iter_type != tir.IterVar.CommReduce or stage.is_output:
        if loop.iter_type != tir.IterVar.CommReduce or tag.startswith("threadIdx"):
            stage.bind(loop, te.thread_axis(tag))


def scope(pick, s):
    stage = pick.one(_with_loops(s))
    if not stage.is_output:
        stage.set_scope(pick.one(["shared", "local", ""]))


STEPS_ON_THREADS = (
    split, split, fuse, reorder, compute_at, compute_at, compute_inline, cache_read, cache_write,
    rfactor, bind, bind, bind, bind, scope, scope, scope,
)  # fmt: skip


def random_schedule(pick, results, note=lambda text: None, on_threads=False):
    """Return a schedule of a program to which random primitives were applied; what is refused is
    left out.
    """
    s = te.create_schedule([one.op for one in results])
    for _ in range(pick.number(1, 8)):
        step = pick.one(STEPS_ON_THREADS if on_threads else STEPS)
        try:
            step(pick, s)
            note(step.__name__)
        except ScheduleError as error:
            note(f"{step.__name__} refused: {error.message}")
    for stage in s.stages if on_threads else ():
        is_bound = any(one.bind_thread is not None for one in stage.iter_var_attrs.values())
        if is_bound and stage.attach_type == AttachType.SCOPE:
            # For the interpreter memory of a thread ends with the launch, not with the kernel.
            stage.set_scope("shared")
        elif stage.scope == "global":  # the threads around a cache tell its memory
            stage.set_scope("")
    return s
