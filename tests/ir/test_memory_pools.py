"""Memories of boards: what they take, refuse, and how they are compared and saved."""

import subprocess
import sys

import numpy as np
import pytest

from tilesmith import ir
from tilesmith.ir import (
    AllocatedPoolInfo,
    ConstantInfo,
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
    load_json,
    save_json,
    structural_equal,
    structural_hash,
)
from tilesmith.runtime import nd
from tilesmith.support.errors import ConfigError, TypeMismatchError
from tilesmith.target import Target


def sram(size=1024, name="sram"):
    return WorkspacePoolInfo(name, ["c"], PoolInfoProperties(size, target_burst_bytes={"c": 4}))


def flash(value=1.0):
    weights = ConstantInfo("w", 16, nd.array(np.full(3, value, "float32")))
    return ConstantPoolInfo("flash", [Target("c")], [weights])


def test_a_pool_answers_its_properties():
    pool = sram()
    assert (pool.pool_name, pool.targets, pool.size_hint_bytes) == ("sram", (Target("c"),), 1024)
    assert pool.clock_frequency_hz == pool.read_bandwidth_bytes_per_cycle == -1
    assert pool.write_bandwidth_bytes_per_cycle == -1
    assert pool.read_latency_cycles == pool.write_latency_cycles == 0
    assert pool.target_burst_bytes == {Target("c"): 4}
    assert WorkspacePoolInfo("any", []).size_hint_bytes == -1
    assert isinstance(pool, PoolInfo)


@pytest.mark.parametrize(
    "make",
    [
        sram,
        flash,
        lambda value=None: WorkspaceMemoryPools([sram(value or 5), sram(name="other")]),
        lambda value=1.0: ConstantMemoryPools([flash(value)]),
        lambda value=7: AllocatedPoolInfo(sram(), value, 2),
    ],
)
def test_pools_are_compared_and_saved(make):
    one, other = make(), make(42)
    assert structural_equal(one, make()) and structural_hash(one) == structural_hash(make())
    assert not structural_equal(one, other)
    assert structural_equal(load_json(save_json(one)), one)
    assert type(one).__name__ in str(one)


def test_a_fresh_process_loads_pools():
    text = save_json(WorkspaceMemoryPools([sram()]))
    program = (
        "import sys; from tilesmith.ir.serialization import load_json\n"
        "print(load_json(sys.stdin.read()).pools[0].size_hint_bytes)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.stdout == "1024\n", done.stderr


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sram(-2), ConfigError, "size_hint_bytes is -2"),
        (lambda: PoolInfoProperties(read_latency_cycles=-1), ConfigError, "read_latency_cycles"),
        (lambda: WorkspacePoolInfo("", ["c"]), ConfigError, "needs a name"),
        (lambda: WorkspacePoolInfo("a", "c"), TypeMismatchError, "are a list"),
        (lambda: WorkspacePoolInfo("a", ["c"], 4096), TypeMismatchError, "PoolInfoProperties"),
        (lambda: PoolInfo("a", ["c"]), TypeMismatchError, "WorkspacePoolInfo or"),
        (lambda: WorkspaceMemoryPools([sram(), sram()]), ConfigError, "called 'sram'"),
        (lambda: WorkspaceMemoryPools([flash()]), TypeMismatchError, "holds WorkspacePoolInfo"),
        (lambda: ConstantMemoryPools([sram()]), TypeMismatchError, "holds ConstantPoolInfo"),
        (lambda: ConstantInfo("w", -1, nd.array(np.zeros(1))), ConfigError, "byte_offset is -1"),
        (lambda: AllocatedPoolInfo(sram(), -1), ConfigError, "allocated_size is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_the_package_names_them():
    for name in ("ConstantInfo", "PoolInfo", "WorkspacePoolInfo"):
        assert getattr(ir, name).__module__ == "tilesmith.ir.memory_pools"
