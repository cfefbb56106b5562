"""Measures how many samples of torch's core ATen operators are imported right.

    python tools/torch_coverage.py             all samples, writes docs/coverage/torch.md
    python tools/torch_coverage.py add conv    only OpInfos with these words, prints

The samples are those of torch's own tests (``torch.testing._internal``, OpInfo) for the forward of
each operator with the tag "core", in float32, int64 and bool where the operator has them. Each is
traced to ATen operators, imported, run by the interpreter of graphs and compared with torch. The
first sample of each OpInfo and dtype that the interpreter gets right is compiled as well.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import pathlib
import sys
import time
import warnings
import zlib
from typing import Any, NamedTuple

import numpy
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from tilesmith import cpu, nd, relax
from tilesmith.relax.frontend.torch.captured import import_captured
from tilesmith.relax.frontend.torch.exported_program_translator import (
    from_exported_program,
    without_converters,
)
from tilesmith.relax.frontend.torch.tensors import array_of
from tilesmith.relax.interpreter import run
from tilesmith.support.errors import TilesmithError

TABLE = pathlib.Path(__file__).parents[1] / "docs" / "coverage" / "torch.md"
DTYPES = (torch.float32, torch.int64, torch.bool)

OTHER_NAMES = {
    "_adaptive_avg_pool2d": ["nn.functional.adaptive_avg_pool2d"],
    "_adaptive_avg_pool3d": ["nn.functional.adaptive_avg_pool3d"],
    "_cdist_forward": ["cdist"],
    "_embedding_bag": ["nn.functional.embedding_bag"],
    "_log_softmax": ["log_softmax", "nn.functional.cross_entropy"],
    "_native_batch_norm_legit": ["_native_batch_norm_legit", "nn.functional.instance_norm"],
    "_native_batch_norm_legit_no_training": ["nn.functional.batch_norm"],
    "_pdist_forward": ["nn.functional.pdist"],
    "_softmax": ["softmax", "nn.functional.softmin"],
    "_to_copy": ["float", "int", "long", "bool", "half", "double", "char", "byte", "short"],
    "alias": ["alias_copy"],
    "convolution": [
        "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d",
        "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d",
        "nn.functional.conv_transpose3d",
    ],
    "grid_sampler_2d": ["grid_sampler_2d", "nn.functional.grid_sample"],
    "index": ["__getitem__"],
    "max_pool2d_with_indices": ["nn.functional.max_pool2d"],
    "max_pool3d_with_indices": ["nn.functional.max_pool3d"],
    "native_group_norm": ["nn.functional.group_norm"],
    "native_layer_norm": ["native_layer_norm", "nn.functional.layer_norm"],
    "reflection_pad1d": ["nn.functional.pad:reflect"],
    "replication_pad2d": ["nn.functional.pad:replicate"],
    "upsample_bilinear2d": [
        "nn.functional.interpolate:bilinear", "nn.functional.upsample_bilinear",
    ],
    "upsample_nearest2d": ["nn.functional.interpolate:nearest", "nn.functional.upsample_nearest"],
}  # fmt: skip
"""Operators whose OpInfo has another name (name, or name:variant)."""

WITHOUT_SAMPLES = {
    "_adaptive_avg_pool2d_backward": "a gradient",
    "_fft_c2r": "complex numbers, which no part of the compiler has",
    "_fft_r2c": "complex numbers, which no part of the compiler has",
    "_local_scalar_dense": "gives a Python number; tests/relax/frontend/torch has a model with it",
    "avg_pool2d_backward": "a gradient",
    "col2im": "no OpInfo; tests/relax/frontend/torch compares it",
    "convolution_backward": "a gradient",
    "copy": "appears only where a mutation is made functional; no OpInfo",
    "embedding_dense_backward": "a gradient; it has a converter",
    "max_pool2d_with_indices_backward": "a gradient; it has a converter",
    "native_dropout": "random; evaluation keeps everything, training is refused",
    "native_group_norm_backward": "a gradient",
    "native_layer_norm_backward": "a gradient; it has a converter",
    "rand": "random numbers of torch's own generator",
    "randn": "random numbers of torch's own generator",
    "randperm": "random numbers of torch's own generator",
    "reflection_pad2d": "measured with reflection_pad1d",
    "reflection_pad3d": "measured with reflection_pad1d",
    "replication_pad3d": "measured with replication_pad2d",
    "resize_": "writes to its argument; no graph that torch makes functional has it",
    "sym_is_contiguous": "a property of memory, which the graph has not",
    "sym_numel": "a size; models with dynamic shapes test it",
    "sym_size": "a size; models with dynamic shapes test it",
    "sym_storage_offset": "a property of memory, which the graph has not",
    "sym_stride": "a property of memory, which the graph has not",
}
LEFT_OUT = {
    "as_strided_partial_views": "reads memory outside of its argument, which the graph has not",
}
"""OpInfos whose samples are excluded, with the reason."""
UNDEFINED_VALUES = ("empty", "empty_strided")
"""Operators whose elements may be anything: shape and dtype are compared."""


class Outcome(NamedTuple):
    """What became of a sample: "pass", "fail" or "excluded", and why."""

    operator: str
    opinfo: str
    dtype: str
    verdict: str
    reason: str = ""


def core_operators() -> dict[str, list[str]]:
    """Return the names of ATen operators with the tag "core", with their tagged overloads."""
    found: dict[str, list[str]] = {}
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace != "aten" or not hasattr(torch.ops.aten, packet):
            continue
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
        if operator is not None and torch.Tag.core in operator.tags:
            found.setdefault(packet, []).append(overload or "default")
    return found


def opinfos_of(operator: str, database: Any) -> list[Any]:
    """Return the OpInfos that sample an operator."""
    named = OTHER_NAMES.get(operator)
    if named is not None:
        wanted = [name.partition(":") for name in named]
        return [
            info
            for info in database
            for name, _, variant in wanted
            if info.name == name and (not variant or variant in info.variant_test_name)
        ]
    composite = ("masked.", "sparse.", "linalg.")
    return [
        info
        for info in database
        if not info.name.startswith(composite)
        and info.variant_test_name not in ("triton_optimized", "decomposed")
        and operator in (info.name, info.aten_name, info.name.rpartition(".")[2])
    ]


# One sample


def flat_call(function: Any, sample: Any) -> tuple[Any, list[Any]]:
    """Return a function of the tensors of a sample, and these."""
    arguments = ((sample.input, *sample.args), sample.kwargs)
    flat, structure = pytree.tree_flatten(arguments)
    places = [place for place, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def call(*tensors: Any) -> Any:
        values = list(flat)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        args, kwargs = pytree.tree_unflatten(values, structure)
        return function(*args, **kwargs)

    return call, [flat[place] for place in places]


_table: dict[Any, Any] = {}


def decompositions() -> dict[Any, Any]:
    """Return torch's decompositions of what has no converter."""
    if not _table:
        from torch._decomp import core_aten_decompositions

        _table.update(without_converters(dict(core_aten_decompositions()), {}))
    return _table


def traced(call: Any, tensors: list[Any]) -> Any:
    """Return the graph of ATen operators of a call."""
    return make_fx(call, decomposition_table=decompositions(), tracing_mode="fake")(*tensors)


class _Model(torch.nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: Any) -> Any:
        return self.call(*tensors)


def exported(call: Any, tensors: list[Any]) -> Any:
    """Return the call as an exported program."""
    return torch.export.export(_Model(call), tuple(tensors), strict=False)


def computed(call: Any, tensors: list[Any]) -> list[Any]:
    """Return the tensors that the imported graph computes, by the interpreter."""
    arrays = [array_of(tensor) for tensor in tensors]
    try:
        graph = traced(call, tensors)
    except (RuntimeError, NotImplementedError) as error:
        if (
            "data-dependent" not in str(error).lower()
            and "dynamic" not in type(error).__name__.lower()
        ):
            raise
        graph = None  # sizes that depend on data
    if graph is None or _writes(graph):
        module = from_exported_program(exported(call, tensors))
        return list(run(module, "main", *arrays, compiled=True))
    captured = import_captured(graph)
    given = [arrays[place] for place in captured.inputs]
    found = run(captured.module, "main", *given, compiled=True)
    return [found[place] for place in captured.outputs if isinstance(place, int)]


def _writes(graph: Any) -> bool:
    """Return whether a graph has operators that change their arguments."""
    schemas = [getattr(node.target, "_schema", None) for node in graph.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def compiled(call: Any, tensors: list[Any]) -> list[Any]:
    """Return the tensors that the exported, imported and compiled call computes."""
    module = from_exported_program(exported(call, tensors))
    machine = relax.VirtualMachine(relax.build(module, "llvm"), cpu())
    found = machine["main"](*[nd.array(array_of(tensor)) for tensor in tensors])
    return [value.numpy() for value in found if hasattr(value, "numpy")]


def difference(operator: str, wanted: list[Any], found: list[Any]) -> str:
    """Return how results differ from torch's; "" if they agree."""
    if len(wanted) != len(found):
        return f"{len(found)} results, torch gives {len(wanted)}"
    for tensor, array in zip(wanted, found):
        value = torch.as_tensor(numpy.array(array))
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            return (
                f"{value.dtype} {tuple(value.shape)} where torch gives {tensor.dtype}"
                f" {tuple(tensor.shape)}"
            )
        if operator in UNDEFINED_VALUES:
            continue
        try:
            torch.testing.assert_close(value, tensor, rtol=1e-4, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            lines = str(error).split("\n")
            return "; ".join([line for line in lines if line][:3])
    return ""


def _names_equal_elements(sample: Any, found: list[Any]) -> bool:
    """Return whether positions are those of the elements beside them: which of several equal ones
    torch names is not determined.
    """
    values, places = [torch.as_tensor(numpy.array(array)) for array in found]
    axes = range(sample.input.dim())
    return any(
        values.shape[:axis] + values.shape[axis + 1 :]
        == sample.input.shape[:axis] + sample.input.shape[axis + 1 :]
        and torch.equal(sample.input.gather(axis, places), values)
        for axis in axes
    )


def judge(operator: str, info: Any, dtype: Any, sample: Any, native: bool) -> Outcome:
    """Return what becomes of a sample, by the interpreter or compiled."""
    name = str(dtype).removeprefix("torch.")
    make = Outcome(operator, info.formatted_name, name, "pass")
    if info.formatted_name in LEFT_OUT:
        return make._replace(verdict="excluded", reason=LEFT_OUT[info.formatted_name])
    call, tensors = flat_call(info.op, sample)
    try:
        with torch.no_grad():
            results = call(*[tensor.clone() for tensor in tensors])
    except Exception as error:  # whatever torch raises
        reason = f"torch itself refuses the sample: {error}".partition("\n")[0]
        return make._replace(verdict="excluded", reason=reason)
    wanted = [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]
    if any(t.is_complex() or t.layout != torch.strided for t in [*tensors, *wanted]):
        return make._replace(verdict="excluded", reason="complex numbers or sparse tensors")
    try:
        with torch.no_grad():
            found = (compiled if native else computed)(call, [t.clone() for t in tensors])
        found = found[: len(wanted)]  # then what is written to
        reason = difference(operator, wanted, found)
        if reason and operator in ("sort", "topk") and _names_equal_elements(sample, found):
            reason = difference(operator, wanted[:1], found[:1])
    except TilesmithError as error:
        return make._replace(verdict="fail", reason=error.message.partition("\n")[0][:300])
    except Exception as error:  # a defect, which the table shows
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        return make._replace(verdict="fail", reason=reason[:300])
    return make._replace(verdict="fail" if reason else "pass", reason=reason)


def measure(task: tuple[str, str, bool]) -> tuple[list[Outcome], list[Outcome], float]:
    """Judge all samples of an OpInfo for an operator: interpreted, and the compiled ones."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    operator, name, native = task
    started = time.monotonic()
    info = next(i for i in database() if i.formatted_name == name)
    interpreted, built = [], []
    for dtype in DTYPES:
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(zlib.crc32(name.encode()))
        samples = info.sample_inputs("cpu", dtype, requires_grad=False)
        is_built = not native
        for sample in samples:
            outcome = judge(operator, info, dtype, sample, False)
            interpreted.append(outcome)
            if outcome.verdict == "pass" and not is_built:
                built.append(judge(operator, info, dtype, sample, True))
                is_built = True
    return interpreted, built, time.monotonic() - started


_database: list[Any] = []


def database() -> list[Any]:
    """Return torch's list of OpInfos."""
    if not _database:
        from torch.testing._internal.common_methods_invocations import op_db

        _database.extend(op_db)
    return _database


# The table


def tasks(words: list[str], native: bool) -> list[tuple[str, str, bool]]:
    """Return (operator, OpInfo, whether one is compiled) for what is to be measured."""
    found = []
    for operator in core_operators():
        if operator in WITHOUT_SAMPLES:
            continue
        for info in opinfos_of(operator, database()):
            if not words or any(word in (operator, info.formatted_name) for word in words):
                found.append((operator, info.formatted_name, native))
    return found


def _counts(outcomes: list[Outcome]) -> collections.Counter[str]:
    return collections.Counter([outcome.verdict for outcome in outcomes])


def _share(counts: Any) -> str:
    judged = counts["pass"] + counts["fail"]
    return f"{100 * counts['pass'] / judged:.1f} %" if judged else "-"


def table(interpreted: list[Outcome], built: list[Outcome]) -> str:
    """Return the page."""
    whole, native = _counts(interpreted), _counts(built)
    operators = sorted(core_operators())
    lines = [
        "# Coverage: torch's core ATen operators",
        "",
        f"Written by `python tools/torch_coverage.py` with torch {torch.__version__}: the samples",
        "of torch's own tests (OpInfo) for the forward of each operator with the tag `core`, in",
        "float32, int64 and bool where it has them, imported and compared with torch (relative",
        "difference 1e-4, absolute 1e-5).",
        "",
        f"* Run by the interpreter of graphs: {whole['pass']} of {whole['pass'] + whole['fail']}"
        f" samples agree ({_share(whole)}), {whole['excluded']} excluded.",
        f"* Compiled, the first sample of each OpInfo and dtype that the interpreter gets right,"
        f" through `torch.export`: {native['pass']} of {native['pass'] + native['fail']} agree"
        f" ({_share(native)}).",
        f"* Operators: {len(operators)}, of which {len(WITHOUT_SAMPLES)} are not measured"
        " (the reasons are below).",
        "",
        "| operator | samples | pass | fail | excluded | compiled |",
        "|---|---|---|---|---|---|",
    ]
    for operator in operators:
        own = _counts([o for o in interpreted if o.operator == operator])
        made = _counts([o for o in built if o.operator == operator])
        if operator in WITHOUT_SAMPLES:
            continue
        lines.append(
            f"| {operator} | {sum(own.values())} | {own['pass']} | {own['fail']} |"
            f" {own['excluded']} | {made['pass']}/{made['pass'] + made['fail']} |"
        )
    lines += ["", "## Not measured", "", "| operator | why |", "|---|---|"]
    lines += [f"| {name} | {WITHOUT_SAMPLES[name]} |" for name in sorted(WITHOUT_SAMPLES)]
    for title, chosen in (
        ("Excluded samples", [o for o in interpreted if o.verdict == "excluded"]),
        ("Samples that fail", [o for o in interpreted if o.verdict == "fail"]),
        ("Compiled samples that fail", [o for o in built if o.verdict == "fail"]),
    ):
        lines += ["", f"## {title}", ""]
        lines += _reasons(chosen) or ["None."]
    return "\n".join(lines) + "\n"


def _reasons(outcomes: list[Outcome]) -> list[str]:
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.opinfo, outcome.dtype), []).append(outcome)
    return [
        f"* {name} ({dtype}): {len(group)}, the first: {group[0].reason.replace('|', '/')}"
        for (name, dtype), group in sorted(groups.items())
    ]


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "words", nargs="*", help="operators or OpInfos; all, and the table, if none"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true", help="the interpreter only")
    given = parser.parse_args()
    chosen = tasks(given.words, not given.no_compile)
    interpreted: list[Outcome] = []
    built: list[Outcome] = []
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        for task, (some, made, seconds) in zip(chosen, pool.imap(measure, chosen)):
            interpreted += some
            built += made
            counts = _counts(some)
            print(f"{task[0]:32} {task[1]:36} {dict(counts)} {seconds:.1f} s", flush=True)
            for outcome in [o for o in some + made if o.verdict == "fail"][:3]:
                print(f"    {outcome.dtype}: {outcome.reason}", flush=True)
    print(dict(_counts(interpreted)), "compiled:", dict(_counts(built)))
    if not given.words and not given.no_compile:
        TABLE.write_text(table(interpreted, built))
        print(f"written: {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
