"""How many threads a block may have: what the user wrote counts, wherever it is asked for."""

import pytest

import tilesmith
from tilesmith.ir import IRModule
from tilesmith.relax.frontend.nn.llm.kv_cache import get_max_num_threads_per_block
from tilesmith.schedule_rules.default_gpu_schedule import thread_count
from tilesmith.schedule_rules.gpu.facts import thread_limit
from tilesmith.script import tir as T
from tilesmith.support.errors import VerifyError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import gpu_limits, max_threads_per_block
from tilesmith.te.hybrid.runtime import max_num_threads
from tilesmith.tir.transform import BindParallelLoops
from tilesmith.topi.schedules.limits import thread_limits

LIMITS = [
    ("cuda", 1024),
    ("cuda -max_threads_per_block=512", 512),
    ("cuda -max_num_threads=512", 512),
    ("cuda -max_num_threads=128 -max_threads_per_block=512", 128),
    ("opencl", 256),
    ("opencl -max_num_threads=64", 64),
    ("opencl -max_threads_per_block=64", 64),
    ("opencl -max_num_threads=1024", 1024),
    ("opencl -max_threads_per_block=512", 512),
    ("opencl -max_threads_per_block=512 -max_num_threads=128", 128),
    ("rocm -max_threads_per_block=1024", 1024),
    ("webgpu", 256),
    ("nvidia/nvidia-h100", 1024),
    ("nvidia/nvidia-h100 -max_num_threads=256", 256),
    ("nvidia/nvidia-h100 -max_threads_per_block=2048", 2048),
    ("llvm", 0),
]


@pytest.mark.parametrize("text, most", LIMITS)
def test_what_the_user_wrote_counts(text, most):
    target = Target(text)
    assert max_threads_per_block(target) == most
    assert max_threads_per_block(Target(target.export())) == most


@T.prim_func(private=True)
def parallel(x: T.Buffer((4096,), "float32")):
    for i in T.parallel(4096):
        x[i] = x[i] + T.float32(1)


def threads_of_parallel_loops(target):
    module = IRModule({"main": parallel.with_attr("target", target)})
    text = BindParallelLoops()(module)["main"].script()
    return int(text.split('launch_thread("threadIdx.x", ')[1].split(")")[0])


@pytest.mark.parametrize("text, most", [case for case in LIMITS if case[1]])
def test_every_floor_asks_the_same_question(text, most):
    target = Target(text)
    assert thread_count(target) == most
    assert thread_limit(target) == min(most, 1024)
    assert gpu_limits(target)["max_threads_per_block"] == most
    assert get_max_num_threads_per_block(target) == most
    assert threads_of_parallel_loops(target) == min(most, 256)
    with target:
        assert thread_limits().threads == most
        assert max_num_threads() == most


@T.prim_func
def wide_blocks(x: T.Buffer((128,), "float32")):
    for i in T.thread_binding(128, "threadIdx.x"):
        x[i] = x[i] + T.float32(1)


@pytest.mark.parametrize("option", ["max_num_threads", "max_threads_per_block"])
def test_kernels_with_more_threads_are_refused(option):
    tilesmith.build(wide_blocks, target=Target(f"opencl -{option}=128", host="llvm"))
    with pytest.raises(VerifyError, match="block: 128, max_threads_per_block is 64"):
        tilesmith.build(wide_blocks, target=Target(f"opencl -{option}=64", host="llvm"))
