"""Each option of PassContext(config=...) that lowering reads: what it changes in a program."""

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.transform.harness import apply, assert_same_results, module
from tilesmith.ir import IRModule, post_order_visit
from tilesmith.ir.transform import PassContext
from tilesmith.lowering import PHASES, build, classic_passes, device_passes, lower, lower_passes
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnsupportedError, VerifyError
from tilesmith.target import Target
from tilesmith.tir import For, transform
from tilesmith.tir.transform import options


@T.prim_func
def add(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "add"})
    X = T.alloc_buffer((30,))
    Y = T.alloc_buffer((30,))
    Z = T.alloc_buffer((30,))
    assert n > 0, "n is too small"
    for i in range(30):
        X[i] = A[29 - i] + T.float32(1)
    for i in range(30):
        Y[i] = X[i] * T.float32(2)
    for i in range(30):
        Z[i] = Y[29 - i]
    for i in T.vectorized(30):
        B[i] = Z[i] + T.Cast("float32", n)
    for i in T.unroll(2):
        B[i] = B[i] + T.float32(1)
    for u in range(1):
        with T.block("last"):
            vu = T.axis.spatial(1, u)
            B[vu] = B[vu] * T.float32(2)


def lowered(func=add, **config):
    with PassContext(config={name.replace("__", "."): v for name, v in config.items()}):
        (new,) = lower(func, name="add").functions.values()
    return new


def count(func, name):
    found = []
    post_order_visit(func.body, lambda node: found.append(node) if named(node) == name else None)
    return len(found)


def named(node):
    if isinstance(node, For):
        return f"For {node.kind.name}"
    return getattr(getattr(node, "op", None), "name", type(node).__name__)


def test_noalias():
    assert lowered().attrs["tir.noalias"] is True
    assert "tir.noalias" not in lowered(tir__noalias=False).attrs


def test_disable_vectorize():
    assert count(lowered(), "Ramp") > 0
    assert count(lowered(tir__disable_vectorize=True), "Ramp") == 0


def test_disable_storage_rewrite():
    assert count(lowered(), "Allocate") == 2
    assert count(lowered(tir__disable_storage_rewrite=True), "Allocate") == 3


def test_disable_unroll():
    assert count(lowered(), "For UNROLLED") == 0
    assert count(lowered(tir__disable_unroll=True), "For UNROLLED") == 1


def test_debug_keep_trivial_loop():
    plain, kept = lowered(), lowered(tir__debug_keep_trivial_loop=True)
    assert count(kept, "For SERIAL") == count(plain, "For SERIAL") + 1


def test_instrument_bound_checkers():
    assert count(lowered(), "AssertStmt") == 1

    @T.prim_func
    def gather(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32")):  # noqa: E741
        for i in range(8):
            A[i] = A[I[i]]

    assert "T.checked" not in lowered(gather).script()
    checked = lowered(gather, tir__instrument_bound_checkers=True)
    assert checked.script().count("T.checked") == 1


def test_instrument_lwp():
    marks = count(lowered(tir__instrument_lwp=True), "tir.start_profile_intrinsic")
    assert marks > 1 and count(lowered(), "tir.start_profile_intrinsic") == 0


def test_enable_debug():
    spans = set()
    post_order_visit(
        lowered(tir__enable_debug=True).body,
        lambda node: spans.add(node.span.source_name) if isinstance(node, For) else None,
    )
    assert spans == {"add.tir"}


def test_vtcm_capacity():
    @T.prim_func
    def func(A: T.Buffer((64,), "int8")):
        X = T.alloc_buffer((64,), "int8", scope="global.vtcm")
        for i in range(64):
            X[i] = A[i]
        for i in range(64):
            A[i] = X[63 - i]

    lowered(func, **{"tir.vtcm_capacity": 64})
    with pytest.raises(VerifyError, match="there are 32"):
        lowered(func, **{"tir.vtcm_capacity": 32})


def test_predication():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for i in T.vectorized(32):
            if A[i] > T.float32(0.5):
                B[i] = A[i]

    plain = lowered(func)
    without = lowered(func, **{"tir.enable_buffer_level_predication": False})
    assert count(plain, "For SERIAL") == 0 and count(without, "For SERIAL") == 1
    assert_same_results(func, plain)
    assert_same_results(func, without)


def test_disable_assert_and_entry_functions():
    with PassContext(config={"tir.disable_assert": True}):
        code = build(add, target="llvm")
    a, b = ts.nd.array(np.ones(30, "float32")), ts.nd.array(np.zeros(30, "float32"))
    code["add"](a, b, -3)
    with pytest.raises(RuntimeError, match="too small"):
        build(add, target="llvm")["add"](a, b, -3)
    both = IRModule({"add": add, "other": add.with_attr("global_symbol", "other")})
    with PassContext(config={"tir.is_entry_func": True}):
        assert module(add)["add"] is add
        with pytest.raises(ConfigError, match="one function"):
            transform.AnnotateEntryFunc()(both)


@pytest.mark.parametrize("option", ["disable_cse_tir", "enable_equiv_terms_in_cse_tir"])
def test_common_terms_in_c(option):
    @T.prim_func
    def func(A: T.Buffer((64, 64), "int32"), n: T.int32, m: T.int32):
        T.func_attr({"global_symbol": "func"})
        for i in range(8):
            A[i, n] = i * 64 + n
            A[i, 0] = n * (m + 1)
            A[i, 1] = n * m + n

    plain = build(func, target="c").get_source()
    with PassContext(config={f"tir.{option}": True}):
        other = build(func, target="c").get_source()
    assert "cse_var_1" in plain
    if option == "disable_cse_tir":
        assert "cse_var" not in other
    else:
        assert other.count(" * ") < plain.count(" * ")  # one product instead of two


# Options of single passes.


def test_unroll_limits():
    @T.prim_func
    def func(A: T.Buffer((4, 4), "float32")):
        L = T.alloc_buffer((4,), scope="local")
        for i in range(4):
            L[i] = A[0, i]
        for i in range(4):
            for j in range(4):
                A[i, j] = L[3 - j]

    def loops(**values):
        return count(lowered(func, **{"tir.UnrollLoop": values}), "For SERIAL")

    assert loops() == 3
    assert loops(auto_max_step=4) == 1
    assert loops(auto_max_extent=4) == 0
    assert loops(auto_max_step=4, auto_max_depth=0) == 1
    assert loops(unroll_local_access=True) == 1
    config = {"tir.UnrollLoop": transform.UnrollLoopConfig(auto_max_step=4, explicit_unroll=False)}
    assert count(lowered(func, **config), "For UNROLLED") == 2


def test_loop_partition_options():
    @T.prim_func
    def func(A: T.Buffer((13,), "float32")):
        for i in range(2):
            for j in range(8):
                if T.likely(i * 8 + j < 13):
                    A[i * 8 + j] = T.float32(1)

    def partitioned(**values):
        return lowered(func, **{"tir.LoopPartition": values})

    assert count(partitioned(), "For SERIAL") == 2
    assert count(partitioned(partition_const_loop=True), "For SERIAL") == 2
    kept = partitioned(partition_const_loop=True, no_unroll_loop_with_extent_one=True)
    assert count(kept, "For SERIAL") > 2

    @T.prim_func
    def hinted(A: T.Buffer((4,), "float32")):
        for i in T.serial(4, annotations={"pragma_loop_partition_hint": 1}):
            A[i] = T.float32(1)

    config = {"tir.LoopPartition": {"unroll_loop_with_partition_hint_no_interval": True}}
    assert count(lowered(hinted), "For SERIAL") == 1
    assert count(lowered(hinted, **config), "For SERIAL") == 0


@T.prim_func
def stored(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "add", "tir.noalias": True})
    A[0] = 5
    B[1] = A[0] + 1
    if A[0] > 3:
        B[0] = 1
    for i in range(8):
        if A[0] > 6:
            B[i] = 2


@pytest.mark.parametrize(
    ("option", "branches", "loads"),
    [
        ("propagate_knowns_to_prove_conditional", 0, 1),
        ("propagate_knowns_to_simplify_expressions", 0, 0),
        ("transitively_prove_inequalities", 2, 1),
    ],
)
@pytest.mark.parametrize("name", ["Simplify", "StmtSimplify"])
def test_what_lies_in_memory_helps_the_simplifier(name, option, branches, loads):
    with PassContext(config={f"tir.{name}": {option: True}}):
        got = apply(stored, getattr(transform, name)())
    assert count(got, "IfThenElse") == branches and count(got, "BufferLoad") == loads
    assert_same_results(stored, got)


def test_memory_is_forgotten_when_it_may_change():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "add"})
        A[0] = 5
        A[n] = 7
        B[0] = A[0]
        A[1] = 3
        for i in range(8):
            B[i] = A[1] + B[i]
            A[i] = i
        A[2] = 4
        if n > 3:
            A[2] = 6
        B[7] = A[2]

    config = {"propagate_knowns_to_simplify_expressions": True}
    with PassContext(config={"tir.Simplify": config}):
        got = apply(func, transform.Simplify())
    for n in (0, 1, 5):
        assert_same_results(func, got, {"n": n})


def test_stores_that_are_stored_over():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"global_symbol": "add", "tir.noalias": True})
        for i in range(8):
            A[i] = 0
        for i in range(8):
            B[i] = 3
        for i in range(8):
            A[i] = B[i]
        for i in range(8):
            B[i] = A[i] + 1

    assert apply(func, transform.RemoveNoOp()) is func
    config = {"tir.RemoveNoOp": transform.RemoveNoOpConfig(use_dataflow_analysis=True)}
    with PassContext(config=config):
        got = apply(func, transform.RemoveNoOp())
        aliased = apply(func.without_attr("tir.noalias"), transform.RemoveNoOp())
    assert count(got, "For SERIAL") == 3 and count(aliased, "For SERIAL") == 4
    assert_same_results(func, got)


# Declarations.


def test_every_option_is_declared_with_type_and_meaning():
    known = PassContext.list_configs()
    for name, _, _, meaning in options.OPTIONS:
        assert known[name]["meaning"] == meaning and meaning


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tir.disable_vectorise": True}, "tir.disable_vectorize"),
        ({"tir.disable_vectorize": "yes"}, "bool"),
        ({"tir.lwp_max_depth": True}, "int"),
        ({"tir.UnrollLoop": {"auto_max": 3}}, "auto_max_step"),
        ({"tir.UnrollLoop": {"auto_max_step": "3"}}, "int"),
        ({"tir.UnrollLoop": 3}, "dict"),
        ({"tir.add_lower_pass": 3}, "list"),
    ],
)
def test_wrong_options_are_refused(config, message):
    with pytest.raises(ConfigError) as caught:
        PassContext(config=config)
    assert message in str(caught.value)


@pytest.mark.parametrize("entry", [3, (9, lambda func: func), (1, "pass")])
def test_wrong_added_passes_are_refused(entry):
    with PassContext(config={"tir.add_lower_pass": [entry]}):
        with pytest.raises(ConfigError, match="add_lower_pass"):
            lower(add)


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("enable", True, UnsupportedError),
        ("use_workspace_io", True, UnsupportedError),
        ("custom_algorithm", "mine", UnsupportedError),
        ("algorithm", "hill_climb", ConfigError),
    ],
)
def test_options_without_a_part_are_refused(name, value, error):
    with PassContext(config={f"tir.usmp.{name}": value}):
        with pytest.raises(error, match="usmp|hill_climb"):
            lower(add)


# The pipelines.


def names(steps):
    return [step.info.name for step in steps]


def test_added_passes_stand_at_the_end_of_their_phase():
    extra = transform.Apply(lambda func: func)
    for passes in (lower_passes, classic_passes):
        for phase in range(len(PHASES)):
            found = passes([(phase, extra)])
            assert len(found) == len(passes()) + 1
            assert found.index(extra) > 0


def test_barriers_over_all_blocks_only_if_asked():
    target = Target("cuda")
    plain = names(device_passes(target))
    with PassContext(config={"tir.detect_global_barrier": True}):
        asked = names(device_passes(target))
    assert len(asked) == len(plain) + 1
    for option, step in (("use_async_copy", "PTXAsyncCopy"), ("ptx_ldg32", "PTXLDG32")):
        with PassContext(config={f"tir.{option}": True}):
            assert f"tir.Inject{step}" in names(device_passes(target))
        assert f"tir.Inject{step}" not in plain
    with PassContext(config={"tir.merge_static_smem": True}):
        merged = names(device_passes(target))
    assert "tir.MergeSharedMemoryAllocations" in merged
    assert "tir.MergeSharedMemoryAllocations" not in plain


@T.prim_func
def on_threads(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "add", "tir.noalias": True})
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("sum"):
                vb, vt = T.axis.remap("SR", [b, t])
                with T.init():
                    B[vb] = T.float32(0)
                B[vb] = B[vb] + A[vb, vt]


def test_a_function_on_threads_becomes_host_and_kernel():
    (func,) = lower(on_threads, name="add").functions.values()
    assert_same_results(on_threads, func)
    mod = IRModule({"add": func})
    for step in device_passes(Target("cuda")):
        mod = step(mod)
    found = sorted(v.name_hint for v in mod.functions)
    assert found == ["__tvm_ffi_add", "add", "add_kernel"]
    assert count(mod["add_kernel"], "AttrStmt") >= 2 and count(mod["add"], "For SERIAL") == 0
    assert "add_kernel" in mod["add"].script()


def test_pipelines_on_the_host():
    @T.prim_func
    def func(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"global_symbol": "add", "tir.noalias": True})
        for i in T.serial(
            16,
            annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]},
        ):
            with T.block("compute"):
                T.reads(A[0:16, i])
                T.writes(C[0:16, i])
                B = T.alloc_buffer((16, 1))
                for j in range(16):
                    with T.block("load"):
                        T.reads(A[j, i])
                        T.writes(B[j, 0])
                        B[j, 0] = A[j, i] * T.float32(2)
                for j in range(16):
                    with T.block("store"):
                        T.reads(B[j, 0])
                        T.writes(C[j, i])
                        C[j, i] = B[j, 0] + T.float32(1)

    (got,) = lower(func, name="add").functions.values()
    assert count(got, "For SERIAL") > 3 and not got.script().count("software_pipeline")
    assert_same_results(func, got)


def test_several_ways_in_one_module():
    @T.prim_func
    def classic(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "classic", "tir.noalias": True})
        X = T.decl_buffer((8,), "float32")
        with T.realize(X[0:8], ""):
            for i in range(8):
                X[i] = A[i] + T.float32(1)
            for i in range(8):
                B[i] = X[7 - i]

    mod = IRModule({"classic": classic, "add": add, "threads": on_threads})
    got = lower(mod)
    assert [v.name_hint for v in got.functions] == ["classic", "add", "threads"]
    assert count(got["classic"], "BufferRealize") == 0
    assert count(got["classic"], "Allocate") == 1
