"""Defines the fields of the fuzzer: what a case is about besides plain programs of blocks.

A field changes the case of a seed: its recipe, its steps, or how it is lowered. Each one is a small
function here, drawn with a weight, and can be asked for by name. To add one, write a function that
takes the case and a source of randomness, and name it in ``FIELDS``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilesmith.testing.fuzz.arithmetic import draw_arithmetic
from tilesmith.testing.fuzz.chains import CHAIN_STAGES, CHAIN_STEPS
from tilesmith.testing.fuzz.forms import check_first, draw_form, leave_out
from tilesmith.testing.fuzz.generator import MORE_STAGES, NARROW_STAGES, STAGES, Generator
from tilesmith.testing.fuzz.gpu_fragments import draw_product
from tilesmith.testing.fuzz.gpu_schedules import GPU_STEPS
from tilesmith.testing.fuzz.graph_checks import draw_passes
from tilesmith.testing.fuzz.graph_programs import GRAPH_STAGES, draw_detours
from tilesmith.testing.fuzz.layouts import LAID_OUT, draw_layout
from tilesmith.testing.fuzz.loop_programs import LOOP_STAGES, draw_loops
from tilesmith.testing.fuzz.memory_programs import MEMORY_STAGES, draw_memory
from tilesmith.testing.fuzz.pipeline_schedules import PIPELINE_STEPS
from tilesmith.testing.fuzz.recipe import parameters_of
from tilesmith.testing.fuzz.rules.programs import draw_for_rules
from tilesmith.testing.fuzz.tensor_programs import TENSOR_STAGES
from tilesmith.testing.fuzz.thread_schedules import THREAD_STEPS
from tilesmith.testing.fuzz.values import NARROW

__all__ = ["FIELDS", "CONDITION_OPTIONS", "apply_field", "draw_field"]

Case = dict[str, Any]


def _blocks(case: Case, rng: random.Random) -> None:
    """Leave programs of blocks as they are, mostly."""
    if rng.random() < 0.3:
        leave_out(rng, case["recipe"]["stages"])


def _scripts(case: Case, rng: random.Random) -> None:
    """Print and parse, save and load each module between two passes."""
    case["scripts"] = True


def _layouts(case: Case, rng: random.Random) -> None:
    """Give parameters strides, offsets and alignments."""
    recipe = case["recipe"]
    dtypes = {tensor["name"]: tensor["dtype"] for tensor in recipe["inputs"]}
    ranks = {tensor["name"]: len(tensor["shape"]) for tensor in recipe["inputs"]}
    for stage in recipe["stages"]:
        for tensor in stage["tensors"]:
            dtypes[tensor["name"]] = tensor["dtype"]
            ranks[tensor["name"]] = len(tensor["shape"])
    recipe["layouts"] = {
        name: draw_layout(rng, ranks[name])
        for name in parameters_of(recipe)
        if rng.random() < 0.6 and dtypes[name] in LAID_OUT
    }


def _statements(case: Case, rng: random.Random) -> None:
    """Add opaque and nested blocks, views, branches, and indices and counts that depend on data."""
    case["recipe"] = recipe = _with_tables(case, MORE_STAGES)
    for stage in recipe["stages"]:
        if rng.random() < 0.6:
            stage["form"] = draw_form(rng, stage)
    if rng.random() < 0.15:
        one = rng.choice(recipe["inputs"])
        recipe["spare"] = [{"shape": one["shape"], "dtype": one["dtype"]}]


def _with_tables(case: Case, stages: Any) -> dict[str, Any]:
    """Return a recipe whose blocks may read constant memory of their own."""
    return Generator(random.Random(case["seed"]), stages, tables=True).draw()


def _threads(case: Case, rng: random.Random) -> None:
    """Bind loops to threads with shared memory, and lower for a device."""
    drawn = [kind for kind, (weight, _) in THREAD_STEPS.items() if weight]
    weights = [THREAD_STEPS[kind][0] for kind in drawn]
    kinds = rng.choices(["ComputeInline", "ReverseComputeInline"], k=rng.choice([0, 0, 1, 2]))
    if rng.random() < 0.25:
        stages = {name: STAGES[name] for name in ("reduce", "contraction", "epilogue", "argmax")}
        case["recipe"] = Generator(random.Random(case["seed"]), stages).draw()
        kinds += ["threads: reduce"] * 2
    for stage in case["recipe"]["stages"]:
        if rng.random() < 0.3:
            stage["form"] = draw_form(rng, stage, rng.choice(_THROUGH_OTHERS))
    kinds += ["threads: tile"] + rng.choices(drawn, weights, k=rng.choice([1, 2, 3, 4, 6]))
    kinds += rng.choices(_IN_KERNELS, k=rng.choice([0, 0, 1]))
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in [*kinds, "threads: rest"]]
    case["device"] = rng.choice(["cuda", "cuda", "opencl"])
    case["extra"] = []
    case["config"] = dict([rng.choice(_DEVICE_CONFIGS)]) if rng.random() < 0.4 else {}


_THROUGH_OTHERS = (("pointer",), ("matched", "local", "view"))
"""Forms of stages that access memory through other buffers."""

_IN_KERNELS = ("Split", "Unroll", "Vectorize", "StorageAlign", "Annotate")
"""Primitives that may follow where loops are bound to threads."""

_DEVICE_CONFIGS: tuple[tuple[str, Any], ...] = (
    ("tir.merge_static_smem", True), ("tir.detect_global_barrier", True),
    ("tir.UnrollLoop", {"auto_max_step": 16, "explicit_unroll": True}),
    ("tir.LoopPartition", {"partition_const_loop": True}),
    ("tir.disable_vectorize", True), ("tir.use_async_copy", True), ("tir.ptx_ldg32", True),
)  # fmt: skip


def _gpu(case: Case, rng: random.Random) -> None:
    """Draw kernels as people write them: tiles, caches that threads fill together, copies ahead of
    their use, partial sums, vectors; or let the schedule rules for GPUs do it.
    """
    if rng.random() < 0.3:
        _gpu_rules(case, rng)
        return
    if rng.random() < 0.12:
        case["recipe"], case["device"] = draw_product(rng), "cuda"
        chosen = ("gpu: fragments", "threads: rest")
        case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in chosen]
        case["config"] = {"tir.use_async_copy": True} if rng.random() < 0.5 else {}
        case["extra"], case["planted"] = [], rng.random() < 0.15
        # before, fragments are not known to belong to warps of threads that other loops name
        case["compared_from"] = "tir.UnifyThreadBinding"
        return
    names = (
        "compute", "reduce", "contraction", "contraction", "convolution", "epilogue", "pooling",
    )  # fmt: skip
    stages = {f"{name} {k}" if k else name: STAGES[name] for k, name in enumerate(names)}
    made = Generator(random.Random(case["seed"]), stages)
    made.dims.update({name: rng.choice(_GPU_SIZES) for name in made.dims})
    made.left = 12_000
    case["recipe"] = made.draw(rng.choice([1, 1, 2, 3]))
    for stage in case["recipe"]["stages"]:
        if rng.random() < 0.8:  # tiles need a loop for each iterator
            stage["binding"] = "plain"
            stage.pop("loop_order", None)
    weights = [weight for weight, _ in GPU_STEPS.values()]
    kinds = ["ComputeInline"] * rng.choice([0, 0, 1])
    kinds += rng.choices(list(GPU_STEPS), weights, k=rng.choice([1, 2, 2, 3]))
    kinds += rng.choices(["threads: tile", "threads: share", "threads: keep", "threads: stay",
                          "threads: reduce"], k=rng.choice([0, 1, 2]))  # fmt: skip
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in [*kinds, "threads: rest"]]
    case["device"] = rng.choice(["cuda", "cuda", "opencl"])
    case["extra"] = []
    case["config"] = dict([rng.choice(_DEVICE_CONFIGS)]) if rng.random() < 0.3 else {}
    if rng.random() < 0.3:
        case["config"]["tir.use_async_copy"] = True
    case["planted"] = rng.random() < 0.15


_GPU_SIZES = (4, 7, 8, 8, 12, 15, 16, 16, 17, 24, 31, 32, 33)
"""Sizes of tiles, and what lies beside them."""


def _gpu_rules(case: Case, rng: random.Random) -> None:
    """Apply the schedule rules for GPUs to programs that they recognise."""
    _rules(case, rng)
    arch = rng.choice(["sm_75", "sm_80", "sm_90"])
    kind, target = rng.choice([("opencl", "opencl"), ("cuda", f"cuda -arch={arch}")])
    case["rules"]["target"], case["back_ends"] = target, [target]
    case["rules"]["layouts"] = {}
    case["device"], case["steps"] = kind, []


def _pipelines(case: Case, rng: random.Random) -> None:
    """Add software pipelines, double buffers, virtual threads; lower for this CPU."""
    weights = [weight for weight, _ in PIPELINE_STEPS.values()]
    kinds = rng.choices(_BEFORE_PIPELINES, k=rng.choice([0, 1, 2]))
    kinds += rng.choices(list(PIPELINE_STEPS), weights, k=rng.choice([1, 1, 2]))
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in kinds]


def _chains(case: Case, rng: random.Random) -> None:
    """Draw programs and schedules for primitives that seldom apply elsewhere."""
    case["recipe"] = recipe = _with_tables(case, CHAIN_STAGES)
    for stage in recipe["stages"]:
        if rng.random() < 0.4:
            stage["form"] = draw_form(rng, stage, ("begin", "triangle", "shift", "pointer"))
    leave_out(rng, recipe["stages"])
    weights = [weight for weight, _ in CHAIN_STEPS.values()]
    kinds = rng.choices(list(CHAIN_STEPS), weights, k=rng.choice([1, 2, 3]))
    kinds += rng.choices(_BEFORE_CHAINS, k=rng.choice([0, 0, 1, 2]))
    if rng.random() < 0.3:
        rng.shuffle(kinds)
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in kinds]
    if "chains: hint" in kinds and rng.random() < 0.7:
        case["config"] = {"tir.LoopPartition": {"partition_const_loop": True}}


def _pointers(case: Case, rng: random.Random) -> None:
    """Hand the pointers of tensors to other functions, and try to change their layout, scope and
    memory.
    """
    stages = {name: MORE_STAGES[name] for name in ("compute", "reduce", "epilogue", "update")}
    stages |= {name: CHAIN_STAGES[name] for name in ("permuted", "two readers", "collecting")}
    case["recipe"] = recipe = _with_tables(case, stages)
    for stage in recipe["stages"]:
        if rng.random() < 0.5:
            stage["form"] = draw_form(rng, stage, ("handed",))
        elif rng.random() < 0.5:
            stage["form"] = draw_form(rng, stage, rng.choice(_THROUGH_OTHERS))
    checked = [check_first(rng, stage) for stage in recipe["stages"]]
    if any(checked):
        case["steps"] = []
        return  # in this order only
    kinds = rng.choices(
        list(_ON_POINTERS), list(_ON_POINTERS.values()), k=rng.choice([0, 1, 1, 2, 3, 4])
    )
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in kinds]


_BEFORE_CHAINS = ("Split", "Fuse", "Reorder", "ComputeAt", "CacheRead", "CacheWrite", "Vectorize")


_ON_POINTERS: dict[str, float] = {
    "TransformLayout": 3, "chains: layout": 2, "StorageAlign": 3, "SetScope": 2,
    "CacheRead": 2, "CacheWrite": 2, "ReindexCacheRead": 1, "ReindexCacheWrite": 1, "ReIndex": 1,
    "ReadAt": 1, "WriteAt": 1, "CacheInplace": 1, "SetAxisSeparator": 0.5, "RollingBuffer": 1,
    "ComputeAt": 2, "ReverseComputeAt": 2, "chains: several": 1, "ComputeInline": 2,
    "ReverseComputeInline": 2, "FuseReductionEpilogue": 1, "DecomposeReduction": 1, "RFactor": 1,
    "Split": 1, "Fuse": 1, "Reorder": 1, "Merge": 0.5, "Blockize": 0.5, "PadEinsum": 0.5,
    "TransformBlockLayout": 1, "UnsafeSetDType": 0.5, "Parallel": 0.5, "Vectorize": 1,
}  # fmt: skip
"""Primitives that change where or how memory lies, and what may come before them: weights."""


def _conditions(case: Case, rng: random.Random) -> None:
    """Draw conditions, hints and lets, and the passes that move, divide or remove them, with what
    they may assume about memory.
    """
    stages = {name: MORE_STAGES[name] for name in ("compute", "reduce", "update", "padding")}
    case["recipe"] = recipe = _with_tables(case, stages)
    if not recipe["symbolic"] and rng.random() < 0.5:  # then conditions compare sizes
        recipe["symbolic"] = rng.sample("abcd", 2)
    for stage in recipe["stages"]:
        stage["form"] = {}
        if stage["binding"] == "plain" and rng.random() < 0.5:
            stage["form"]["let"] = True
        if stage["binding"] == "tiled" and rng.random() < 0.5:
            stage["form"]["likely"] = True
        if rng.random() < 0.3:
            stage["form"]["assumption"] = True
        if stage["kind"] == "compute" and stage["binding"] == "plain" and rng.random() < 0.3:
            stage["form"]["local"] = "twice"
    kinds = rng.choices(["Split", "Reorder", "chains: hint", "Fuse"], k=rng.choice([0, 1, 2]))
    case["steps"] = [[kind, rng.randrange(1 << 30)] for kind in kinds]
    case["extra"] = [
        [rng.choice(["tir.FlattenBuffer", "tir.Simplify"]), rng.choice(_ON_CONDITIONS)]
        for _ in range(rng.choice([1, 2, 3]))
    ]
    case["config"] = dict([rng.choice(CONDITION_OPTIONS)])


_ON_CONDITIONS = (
    "HoistExpression", "HoistExpression", "HoistIfThenElse", "HoistIfThenElseBasic",
    "LoopPartition", "LoopPartition", "ReduceBranchingThroughOvercompute", "RemoveNoOp", "Simplify",
    "UseAssumeToReduceBranches",
)  # fmt: skip


def _simplifier(**more: bool) -> tuple[str, Any]:
    return "tir.Simplify", more


CONDITION_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("tir.LoopPartition", {"partition_const_loop": True}),
    ("tir.LoopPartition", {"partition_const_loop": True, "no_unroll_loop_with_extent_one": True}),
    ("tir.RemoveNoOp", {"use_dataflow_analysis": True}),
    ("tir.RemoveNoOp", {"use_dataflow_analysis": True}),
    ("tir.ReduceBranchingThroughOvercompute", {"use_dataflow_analysis": True}),
    ("tir.HoistExpression", {"hoisted_conditionals": 7, "hoisted_let_bindings": 0}),
    ("tir.HoistExpression", {"hoisted_conditionals": 0, "hoisted_let_bindings": 7}),
    ("tir.HoistIfThenElse", {"support_block_scope_hosting": True}),
    _simplifier(transitively_prove_inequalities=True),
    _simplifier(convert_boolean_to_and_of_ors=True),
    _simplifier(apply_constraints_to_boolean_branches=True),
    _simplifier(propagate_knowns_to_prove_conditional=True),
    _simplifier(propagate_knowns_to_simplify_expressions=True),
    _simplifier(
        propagate_knowns_to_prove_conditional=True, propagate_knowns_to_simplify_expressions=True,
        convert_boolean_to_and_of_ors=True, apply_constraints_to_boolean_branches=True,
        transitively_prove_inequalities=True,
    ),
)  # fmt: skip
"""Options of passes about conditions, with and without what they may find out from stores."""


def _tensors(case: Case, rng: random.Random) -> None:
    """Make programs with ``te.create_prim_func``."""
    stages = {name: STAGES[name] for name in TENSOR_STAGES}
    case["recipe"] = Generator(random.Random(case["seed"]), stages).draw()
    for stage in case["recipe"]["stages"]:
        stage.pop("start", None)  # tensor expressions start from the identity
    case["program"] = "tensors"


def _loops(case: Case, rng: random.Random) -> None:
    """Make classic loop programs, for their own pipeline; schedule primitives need blocks."""
    stages = {name: STAGES[name] for name in LOOP_STAGES}
    made = Generator(random.Random(case["seed"]), stages).draw()
    if not made["stages"]:
        return  # no form applied: the case stays one of blocks
    case["recipe"] = made
    for stage in made["stages"]:
        stage["loops"] = draw_loops(rng, stage)
        stage["binding"] = "plain"
    case["program"], case["steps"] = "loops", []


def _memory(case: Case, rng: random.Random) -> None:
    """Keep many results in memory that threads share, special memory, or vectors, for the passes
    that let them share memory.
    """
    kind = rng.choice(["threads", "threads", "threads", "special", "vectors"])
    names = ("compute",) if kind == "vectors" else MEMORY_STAGES
    generator = Generator(random.Random(case["seed"]), {name: STAGES[name] for name in names})
    if rng.random() < 0.8:  # mostly sizes that threads and vectors divide
        generator.dims.update({name: rng.choice([4, 4, 8, 8, 16]) for name in generator.dims})
    if rng.random() < 0.8:  # mostly known ones: else there is little to decide
        generator.recipe["symbolic"] = []
    case["recipe"] = recipe = generator.draw(rng.choice([3, 4, 5, 6, 8]))
    if not recipe["stages"]:
        return  # no form applied: the case stays one of blocks
    for stage in recipe["stages"]:
        stage["out"] = False  # all results but those that are not read stay in such memory
    draw_memory(rng, recipe, kind)
    case["program"], case["steps"], case["config"] = "memory", [], {}
    case["extra"] = [
        [rng.choice(["tir.VectorizeLoop", "tir.UnrollLoop"]), rng.choice(_ON_MEMORY)]
        for _ in range(rng.choice([1, 2] if kind == "vectors" else [0, 1, 1, 2]))
    ]
    if recipe["threads"]:
        case["device"] = rng.choice(["cuda", "cuda", "opencl"])
        case["config"] = dict(rng.sample(_SHARED_MEMORY_CONFIGS, rng.choice([0, 1, 1, 2])))


_ON_MEMORY = ("StorageRewrite", "StorageRewrite", "PointerValueTypeRewrite")

_SHARED_MEMORY_CONFIGS: tuple[tuple[str, Any], ...] = (
    ("tir.merge_static_smem", True), ("tir.disable_storage_rewrite", True),
)  # fmt: skip
"""Merging has more to do where StorageRewrite has not let memory be shared before."""


def _graphs(case: Case, rng: random.Random) -> None:
    """Make graph modules: a kernel for each stage, graph passes, and the compiled whole."""
    stages = {name: STAGES[name] for name in GRAPH_STAGES}
    case["recipe"] = recipe = Generator(random.Random(case["seed"]), stages).draw()
    if not recipe["stages"]:
        return  # no form applied: the case stays one of blocks
    if not recipe["symbolic"] and rng.random() < 0.4:
        recipe["symbolic"] = rng.sample("abcd", rng.choice([1, 2]))
    if recipe["symbolic"]:
        recipe["index"] = "int64"  # as sizes of graphs are
    case["program"], case["steps"] = "graph", []
    case["detours"], case["passes"] = draw_detours(rng, recipe), draw_passes(rng)
    case["pipeline"] = rng.choice(["default", "default", "zero"])
    case["scripts"] = rng.random() < 0.3


_BEFORE_PIPELINES = ("Split", "Fuse", "Reorder", "ComputeAt", "Vectorize", "DecomposeReduction")


def _narrow(case: Case, rng: random.Random) -> None:
    """Use small floats and integers, the passes that compute them in wider types, and more C, whose
    code calls functions for them.
    """
    if rng.random() < 0.4:
        case["back_ends"] = ["llvm", "c"]
    case["recipe"] = Generator(random.Random(case["seed"]), NARROW_STAGES, NARROW).draw()
    for name in ("BF16ComputeLegalize", "FP8ComputeLegalize"):
        if rng.random() < 0.6:
            case["extra"].append([rng.choice(["tir.FlattenBuffer", "tir.RemoveNoOp"]), name])


def _rules(case: Case, rng: random.Random) -> None:
    """Apply the schedule rules of a target to programs that they recognise, then primitives."""
    case["recipe"] = {"index": "int64", "dims": {}, "symbolic": [], "inputs": [], "stages": []}
    case["program"], case["rules"] = "rules", draw_for_rules(rng)
    case["steps"] = case["steps"][:4] if rng.random() < 0.3 else []
    case["watched"], case["verified"] = rng.random() < 0.15, rng.random() < 0.15
    case["back_ends"] = [case["rules"]["target"]]
    case["extra"], case["config"] = [], {}


def _arithmetic(case: Case, rng: random.Random) -> None:
    """Ask the analyzer about expressions of integers, instead of a program."""
    case["recipe"] = {"index": "int32", "dims": {}, "symbolic": [], "inputs": [], "stages": []}
    case["program"], case["arithmetic"] = "arithmetic", draw_arithmetic(rng)
    case["steps"], case["extra"], case["config"] = [], [], {}


FIELDS: dict[str, tuple[float, Callable[[Case, random.Random], None]]] = {
    "blocks": (10, _blocks),
    "scripts": (1, _scripts),
    "layouts": (1, _layouts),
    "statements": (2, _statements),
    "threads": (2, _threads),
    "gpu": (2, _gpu),
    "pipelines": (1, _pipelines),
    "chains": (2, _chains),
    "conditions": (1.5, _conditions),
    "pointers": (1.5, _pointers),
    "tensors": (1, _tensors),
    "loops": (1, _loops),
    "memory": (1.5, _memory),
    "narrow": (1, _narrow),
    "graphs": (1, _graphs),
    "rules": (3, _rules),
    "arithmetic": (2, _arithmetic),
}
"""Name → how often it is drawn, and the function that applies it to a case."""


def draw_field(rng: random.Random) -> str:
    """Return the name of a random field."""
    return rng.choices(list(FIELDS), [weight for weight, _ in FIELDS.values()])[0]


def apply_field(case: Case, field: str) -> None:
    """Apply a field to a case."""
    case["field"] = field
    FIELDS[field][1](case, random.Random(case["seed"] * 104729 + 11))
