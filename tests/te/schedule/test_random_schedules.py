"""Random schedules of random programs: whatever the primitives, the interpreter's result stays.

A program has two to four stages, each an elementwise, shifted, transposed or reducing reader of
earlier ones. A schedule changes their loops, their places, and makes caches and partial results.
"""

import random

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.te.schedule.programs import check, interpreted
from tilesmith import te
from tilesmith.support.errors import CodegenError, ScheduleError, UnsupportedError
from tilesmith.tir.expr import IterVar


def shifted(T, n, m, by):
    return te.compute(
        (n, m),
        lambda i, j: te.if_then_else(j + by < m, T[i, te.min(j + by, m - 1)], 1.0),
        name="shifted",
    )


class Program:
    """A random program; the same one for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        pick = self.random.choice
        n, m = pick([1, 3, 5, 8]), pick([2, 4, 7, 9])
        self.A = te.placeholder((n, m), name="A")
        self.stages = []
        for _ in range(pick([1, 2, 3])):
            self.stages.append(self.matrix(pick([self.A, *self.stages]), n, m))
        T = self.stages[-1]
        if pick([True, False]):
            k = te.reduce_axis((0, m), name="k")
            U = pick([self.A, *self.stages])
            self.stages.append(
                te.compute((n,), lambda i: te.sum(T[i, k] * U[i, k], axis=k), name="sum")
            )
        else:
            self.stages.append(te.compute((m, n), lambda i, j: T[j, i] + 1.0, name="turned"))

    def matrix(self, T, n, m):
        kind = self.random.choice(["double", "shift", "both", "product"])
        if kind == "double":
            return te.compute((n, m), lambda i, j: T[i, j] * 2.0, name="double")
        if kind == "shift":
            return shifted(T, n, m, self.random.choice([1, 2]))
        if kind == "both":
            U = self.random.choice([self.A, *self.stages])
            return te.compute((n, m), lambda i, j: T[i, j] + U[i, m - 1 - j], name="both")
        k = te.reduce_axis((0, n), name="k")
        return te.compute((n, m), lambda i, j: te.sum(T[k, j], axis=k), name="product")

    @property
    def arguments(self):
        return [self.A, self.stages[-1]]


class RandomSchedule:
    """Applies random primitives to the stages of a schedule."""

    fuses_kinds = True  # loops of results with loops of reductions

    def __init__(self, program, seed):
        self.random = random.Random(seed)
        self.s = te.create_schedule(program.stages[-1].op)
        self.tensors = [program.A, *[one for one in program.stages if one in self.s]]
        self.done = []

    def run(self):
        s, pick = self.s, self.random.choice
        self.data_flow()
        for stage in list(s.stages):
            if type(stage.op).__name__ != "PlaceholderOp":
                self.loops(stage)
        for stage in list(s.stages):
            readers = [
                one for one in s.stages if any(t.op is stage.op for t in one.op.input_tensors)
            ]
            if stage.is_output or type(stage.op).__name__ == "PlaceholderOp" or len(readers) != 1:
                continue
            if not stage.op.reduce_axis and pick([False, False, True]):
                stage.compute_inline()
        for stage in list(s.stages):
            if stage.attach_type == 2 or stage.is_output or not stage.op.input_tensors:
                continue
            readers = self.readers(stage)
            if len(readers) == 1 and pick([True, True, False]) and readers[0].leaf_iter_vars:
                stage.compute_at(readers[0], pick(readers[0].leaf_iter_vars))
                if pick([True, False, False]):
                    stage.storage_align(stage.op.axis[0], 4, 1)
        return s

    def readers(self, stage):
        """The stages that read one, by way of those that are inlined."""
        found, waiting = [], [stage]
        while waiting:
            op = waiting.pop().op
            for one in self.s.stages:
                if any(t.op is op for t in one.op.input_tensors):
                    (waiting if one.attach_type == 2 else found).append(one)
        return list(dict.fromkeys(found))

    def data_flow(self):
        s, pick = self.s, self.random.choice
        for tensor in self.tensors[1:]:
            kind = pick(["", "", "cache_write", "cache_read", "rfactor"])
            if kind == "cache_write":
                s.cache_write(tensor, "local")
            elif kind == "cache_read":
                readers = [
                    one.op
                    for one in s.stages
                    if any(t.op is s[tensor].op for t in one.op.input_tensors)
                ]
                if readers:
                    s.cache_read(tensor, "global", readers)
            elif kind == "rfactor" and s[tensor].op.reduce_axis:
                axis = s[tensor].op.reduce_axis[0]
                outer, inner = s[tensor].split(axis, factor=pick([2, 3]))
                s.rfactor(tensor, pick([outer, inner]))

    def loops(self, stage):
        pick = self.random.choice
        for _ in range(pick([0, 1, 2, 3])):
            loops = list(stage.leaf_iter_vars)
            if not loops:
                return
            kind = pick(["split", "split", "fuse", "reorder", "nparts"])
            if kind in ("split", "nparts"):
                size = {"factor" if kind == "split" else "nparts": pick([1, 2, 3, 4, 16])}
                stage.split(pick(loops), **size)
            elif kind == "fuse" and len(loops) > 1:
                where = self.random.randrange(len(loops) - 1)
                outer, inner = loops[where : where + 2]
                if self.fuses_kinds or outer.iter_type == inner.iter_type:
                    stage.fuse(outer, inner)
            elif kind == "reorder":
                self.random.shuffle(loops)
                stage.reorder(*loops)
        loops = stage.leaf_iter_vars
        if loops and loops[-1].iter_type == IterVar.DataPar and pick([True, False]):
            getattr(stage, pick(["vectorize", "unroll"]))(loops[-1])
        if len(loops) > 1 and loops[0].iter_type == IterVar.DataPar and pick([True, False]):
            stage.parallel(loops[0])


def compare(program_seed, schedule_seed, kind):
    """Compare a random schedule with the plain one."""
    program = Program(program_seed)
    a = np.random.default_rng(program_seed).random(
        [int(size) for size in program.A.shape], dtype="float32"
    )
    wanted = interpreted(te.create_schedule(program.stages[-1].op), program.arguments, a)
    s = kind(program, schedule_seed).run()
    check(s, program.arguments, wanted, a, rtol=1e-4)


class OnThreads(RandomSchedule):
    """Runs the output on threads, and what is computed inside of it in the memory of threads."""

    fuses_kinds = False  # a reduction by threads cannot

    def run(self):
        s, pick = self.s, self.random.choice
        self.data_flow()
        output = s[self.tensors[-1]]
        self.loops(output)
        for kind in (IterVar.DataPar, IterVar.CommReduce):
            loops = [one for one in output.leaf_iter_vars if one.iter_type == kind]
            tags = ["blockIdx.x", "threadIdx.x"] if kind == IterVar.DataPar else ["threadIdx.y"]
            for loop, tag in zip(loops, tags):
                if pick([True, True, False]):
                    output.bind(loop, te.thread_axis(tag))
        for stage in list(s.stages):
            if stage.is_output or type(stage.op).__name__ == "PlaceholderOp":
                continue
            self.loops(stage)
        for stage in reversed(list(s.stages)):
            readers = self.readers(stage)
            if stage.is_output or type(stage.op).__name__ == "PlaceholderOp" or len(readers) != 1:
                continue
            if pick([True, True, False]) and readers[0].leaf_iter_vars:
                stage.compute_at(readers[0], pick(readers[0].leaf_iter_vars))
                stage.set_scope(pick(["", "shared", "local"]))
        return s


REFUSED_ON_DEVICES = (
    "has a size that is not constant",  # of memory of threads
    "is allocated in global memory inside a kernel",
    "but it is allocated outside of the kernel",
    "inside of a branch or loop that not all of them take",  # an exchange, which needs a barrier
)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_random_schedules_on_threads_keep_the_result(program_seed, schedule_seed):
    try:
        compare(program_seed, schedule_seed, OnThreads)
    except ScheduleError as error:  # registers of threads that do not run yet
        if "computed outside of the threads" not in str(error):
            raise
        reject()
    except (CodegenError, UnsupportedError) as error:  # the interpreter has compared it before
        if not any(text in str(error) for text in REFUSED_ON_DEVICES):
            raise


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_random_schedules_keep_the_result(program_seed, schedule_seed):
    compare(program_seed, schedule_seed, RandomSchedule)
