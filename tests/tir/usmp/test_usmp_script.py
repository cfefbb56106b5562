"""Unified static memory planning: live ranges across calls, plans in pools, programs that still
compute the same.
"""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.ir import PoolInfoProperties, WorkspacePoolInfo
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.visitor import Rewriter
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnknownNameError, UnsupportedError
from tilesmith.tir import Allocate
from tilesmith.tir.interpreter import run
from tilesmith.tir.usmp import BufferInfo, PoolAllocation, analysis, transform, utils


@I.ir_module
class Chain:
    """Doubles, adds 1 and squares, through tensors of main and scratch memory of the operators."""

    @T.prim_func(private=True)
    def double(x: T.handle("float32"), y: T.handle("float32")):
        X = T.decl_buffer((8,), "float32", data=x)
        Y = T.decl_buffer((8,), "float32", data=y)
        scratch = T.allocate([8], "float32", "global")
        S = T.decl_buffer((8,), "float32", data=scratch)
        for i in range(8):
            S[i] = X[i] + X[i]
        for i in range(8):
            Y[i] = S[7 - i]

    @T.prim_func(private=True)
    def add_one(x: T.handle("float32"), y: T.handle("float32")):
        X = T.decl_buffer((8,), "float32", data=x)
        Y = T.decl_buffer((8,), "float32", data=y)
        for i in range(8):
            Y[i] = X[i] + T.float32(1)

    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (8,), "float32")
        B = T.match_buffer(b, (8,), "float32")
        first = T.allocate([8], "float32", "global")
        second = T.allocate([16], "float32", "global")
        third = T.allocate([8], "float32", "global")
        Chain.double(A.data, first)
        Chain.add_one(first, second)
        Chain.double(second, third)
        Chain.double(third, B.data)


def expected(a):
    return (2 * (2 * (2 * a[::-1] + 1)[::-1]))[::-1]


def with_pools(module, pools, names=None):
    """The module whose allocations have candidate pools."""

    class Mark(Rewriter):
        def visit_Allocate(self, node):
            node = self.children(node)
            if names is not None and node.buffer_var.name not in names:
                return node
            return node.with_fields(annotations={utils.CANDIDATE_MEMORY_POOL_ATTR: pools})

    copy = module.shallow_copy()
    for variable, function in module.functions.items():
        copy[variable] = function.with_body(Mark().visit(function.body))
    return copy


def pool(name, size=-1):
    return WorkspacePoolInfo(name, [ts.target.Target("llvm")], PoolInfoProperties(size))


def infos_of(module):
    return analysis.extract_buffer_info(module["main"], module)


def test_sizes_and_conflicts():
    infos = infos_of(with_pools(Chain, [pool("sram")]))
    by_name = {info.name_hint: info for info in infos}
    assert {name: info.size_bytes for name, info in by_name.items()} == {
        "first": 32, "second": 64, "third": 32, "scratch": 32,
    }  # fmt: skip
    assert {name: {one.name_hint for one in info.conflicts} for name, info in by_name.items()} == {
        "first": {"second", "scratch"},
        "second": {"first", "third", "scratch"},
        "third": {"second", "scratch"},
        "scratch": {"first", "second", "third"},
    }
    assert len(by_name["scratch"].live) == 3  # as often as its function is called
    assert all(isinstance(allocation, Allocate) for allocation in infos.values())


def check_plan(infos, places):
    for info in infos:
        for other in info.conflicts:
            one, two = places[infos[info]], places[infos[other]]
            if one.pool_info is two.pool_info:
                end, begin = one.byte_offset + info.size_bytes, two.byte_offset
                assert end <= begin or begin + other.size_bytes <= one.byte_offset
    for info in infos:
        assert places[infos[info]].byte_offset % 16 == 0


@pytest.mark.parametrize("algorithm", [None, "greedy_by_size", "greedy_by_conflicts"])
def test_plans_share_memory(algorithm):
    infos = infos_of(with_pools(Chain, [pool("sram")]))
    with PassContext(config={"tir.usmp.algorithm": algorithm} if algorithm else {}):
        places = utils.plan_pool_allocations(infos)
    check_plan(infos, places)
    needed = max(places[infos[info]].byte_offset + info.size_bytes for info in infos)
    assert needed < sum(info.size_bytes for info in infos)


def test_what_does_not_fit_moves_to_the_next_candidate():
    small, large = pool("sram", 64), pool("dram")
    infos = infos_of(with_pools(Chain, [small, large]))
    places = utils.plan_pool_allocations(infos)
    check_plan(infos, places)
    pools = {info.name_hint: places[infos[info]].pool_info.pool_name for info in infos}
    assert pools["second"] == "dram" and "sram" in pools.values()
    in_small = [info for info in infos if pools[info.name_hint] == "sram"]
    assert all(places[infos[info]].byte_offset + info.size_bytes <= 64 for info in in_small)


@pytest.mark.parametrize("sizes", [(-1,), (64, -1)])
def test_a_planned_program_computes_the_same(sizes):
    pools = [pool(f"pool{number}", size) for number, size in enumerate(sizes)]
    planned = transform.UnifiedStaticMemoryPlanner()(with_pools(Chain, pools))
    assert "T.allocate" not in planned.script()
    needs = planned["main"].attrs["pool_args"]
    assert [need.pool_info.pool_name for need in needs] == [one.pool_name for one in pools]
    assert [need.pool_var_idx for need in needs] == list(range(2, 2 + len(pools)))
    assert len(planned["double"].params) > 2 and len(planned["add_one"].params) == 2
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    memory = [np.zeros(need.allocated_size, "uint8") for need in needs]
    run(planned, a, b, *memory)
    np.testing.assert_array_equal(b, expected(a))


@I.ir_module
class Direct:
    """The loops of the chain in main itself, where tensors that share memory meet."""

    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        first = T.allocate([8], "float32", "global")
        second = T.allocate([8], "float32", "global")
        third = T.allocate([8], "float32", "global")
        F = T.decl_buffer((8,), "float32", data=first)
        S = T.decl_buffer((8,), "float32", data=second)
        R = T.decl_buffer((8,), "float32", data=third)
        for i in range(8):
            F[i] = A[7 - i] + A[7 - i]
        for i in range(8):
            S[i] = F[i] + T.float32(1)
        for i in range(8):
            R[i] = S[7 - i] + S[7 - i]
        for i in range(8):
            B[i] = R[7 - i] + R[7 - i]


@pytest.mark.parametrize("module", [Chain, Direct])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_planned_program_is_built(module, target):
    planned = transform.UnifiedStaticMemoryPlanner()(with_pools(module, [pool("sram")]))
    (need,) = planned["main"].attrs["pool_args"]
    assert need.allocated_size == (128 if module is Chain else 64)
    a = np.arange(8, dtype="float32")
    b, memory = [
        ts.nd.array(np.zeros(*one)) for one in ((8, "float32"), (need.allocated_size, "uint8"))
    ]
    ts.build(planned, target=target)["main"](ts.nd.array(a), b, memory)
    np.testing.assert_array_equal(b.numpy(), expected(a))


def test_a_loop_keeps_what_it_accesses_alive():
    @I.ir_module
    class Loop:
        @T.prim_func
        def main(a: T.handle):
            A = T.match_buffer(a, (8,), "float32")
            around = T.allocate([8], "float32", "global")
            R = T.decl_buffer((8,), "float32", data=around)
            for i in range(8):
                R[i] = A[i]
            for i in range(8):
                A[i] = R[7 - i]
                inside = T.allocate([4], "float32", "global")
                N = T.decl_buffer((4,), "float32", data=inside)
                N[0] = A[i]
                A[i] = N[0] + T.float32(1)

    infos = infos_of(with_pools(Loop, [pool("sram")]))
    (around, inside) = sorted(infos, key=lambda info: info.name_hint)
    assert around.conflicts == [inside] and inside.conflicts == [around]


def test_allocations_without_pools_stay():
    module = with_pools(Chain, [pool("sram")], names=("scratch",))
    planned = transform.UnifiedStaticMemoryPlanner()(module)
    text = planned["main"].script()
    assert text.count("T.allocate") == 3 and "T.allocate" not in planned["double"].script()


def test_places_that_users_choose():
    module = with_pools(Chain, [pool("sram")], names=("scratch",))
    (allocation,) = infos_of(module).values()
    place = PoolAllocation(pool("mine"), 48)
    converted = transform.convert_pool_allocations_to_offsets(
        {allocation: place}, emit_tvmscript_printable=True
    )(module)
    assert "pool_args" not in converted["main"].attrs
    text = converted["double"].script()
    assert "T.handle_add_byte_offset(mine, T.int64(48))" in text
    ts.ir.assert_structural_equal(ts.script.from_source(converted.script()), converted)


def test_what_is_refused():
    @I.ir_module
    class Sizes:
        @T.prim_func
        def main(n: T.int32):
            some = T.allocate([n], "float32", "global")
            S = T.decl_buffer((n,), "float32", data=some)
            S[0] = T.float32(0)

    with pytest.raises(UnsupportedError, match="'some' has candidate pools .* not constant: n"):
        infos_of(with_pools(Sizes, [pool("sram")]))
    with pytest.raises(ConfigError, match="'sram' has 64 bytes, the plan needs"):
        utils.plan_pool_allocations(infos_of(with_pools(Chain, [pool("sram", 64)])))
    with pytest.raises(UnknownNameError, match="planned from its main function"):
        transform.UnifiedStaticMemoryPlanner()(ts.IRModule({"f": Chain["add_one"]}))


def test_options_and_records():
    assert not utils.use_workspace_io_is_enabled()
    with PassContext(config={"tir.usmp.use_workspace_io": True}):
        assert utils.use_workspace_io_is_enabled()
    one, other = BufferInfo("a", 4, [pool("sram")]), BufferInfo("b", 4, [pool("sram")])
    one.set_conflicts([other])
    assert one.conflicts == [other] and one != other
