"""trace: JSON: raises ScheduleError in tir/schedule/base.py:_run

Found by ``tilesmith fuzz tir``, seed 20958.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   File "/tmp/snap/tilesmith/tir/schedule/trace.py", line 340, in apply_json_to_schedule
#     result = getattr(sch, inst.kind.method)(*positional, **named)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/schedule.py", line 329, in sample_perfect_tile
#     factors = self._run(
#               ^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/base.py", line 237, in _run
#     raise ScheduleError(text) from None
# tilesmith.support.errors.ScheduleError: schedule error
#   /tmp/snap/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'bool'}],
 [{'name': 'T0', 'shape': [1, 1], 'dtype': 'bool'}]]  # fmt: skip


@T.prim_func
def main(T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    a = T.int32()
    T0 = T.match_buffer(T0_handle, (a, 1), "bool")
    # with T.block("root"):
    for i0, i1 in T.grid(a, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.bool(True)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    v3, v4, v5 = sch.sample_perfect_tile(l1, 3, 4)
    l6, l7, l8 = sch.split(l1, [v3, v4, v5])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "trace", ["llvm"])
