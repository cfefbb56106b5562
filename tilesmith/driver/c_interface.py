"""Makes object code or C source, a header and a file of parameters of a model for C programs.

    executable.export_c("m.o")     →   m.o, m.h, m.safetensors

The functions take one pointer for each tensor, an int64 for each symbolic size, then the addresses
of the parameters and of the workspace. They are the graph functions themselves, without the packed
calling convention; so they are compiled once more, and the kernels come from the cache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilesmith.codegen.c.dialect import c_type, identifier
from tilesmith.driver.c_header import CFunction, CParameter, CWeights, checksum, header_text
from tilesmith.driver.graph_function import GraphFunction
from tilesmith.driver.kernels import KernelTable, compile_kernels, lower_jobs
from tilesmith.ir import Call, IRModule, PrimExpr, Rewriter, Var, const
from tilesmith.lowering import lower_kernels, symbolic_sizes
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.runtime.params import header_and_parts
from tilesmith.support.errors import UnknownNameError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.files import PathLike, replace_file, write_atomically
from tilesmith.support.linker import keep_public, link_relocatable
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.tir import AttrStmt, Buffer, LetStmt, PrimFunc, Stmt

__all__ = ["CInterface"]

_MOST_EMBEDDED = 64 << 20
_OWN_ERRORS = (
    "TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts",
    "TVMFFIErrorMoveFromRaised", "TVMFFIErrorSetRaised", "TVMFFIObjectDecRef",
)  # fmt: skip
"""What the code for C programs brings along of tvm-ffi's library."""


@dataclass(frozen=True)
class CInterface:
    """What was lowered of a model, ready to be compiled for C programs."""

    functions: Sequence[GraphFunction]
    kernels: KernelTable
    refused: Mapping[str, str]
    """The public functions that are no native code, each with the reason."""
    has_external: bool
    settings: Callable[[], AbstractContextManager[Any]]
    """Enters the settings that held when the model was built."""

    @property
    def target(self) -> Target:
        """The target that the model was built for."""
        return self.kernels.target

    def write(
        self,
        path: PathLike,
        functions: Sequence[str] | None,
        embed: bool,
        constants: Mapping[str, Any],
    ) -> list[str]:
        """Write the files; return their paths. Raises UnsupportedError for what needs more than
        plain code.
        """
        place = Path(path)
        is_source = place.suffix == ".c"
        if place.suffix not in (".o", ".obj", ".c"):
            raise UnsupportedError(
                f"'{place.name}' is neither object code nor C source",
                notes=("name it 'm.o', or 'm.c' for a model built for the target 'c'",),
            )
        record = back_end_of(self.target)
        if (record.c_support_source if is_source else record.c_support) is None:
            raise UnsupportedError(
                f"the target '{self.target}' has no code of the form '{place.suffix}'",
                notes=("build the model for the target 'c' to get C source, for 'llvm' or 'c' to "
                       "get object code",),
            )  # fmt: skip
        prefix = identifier(place.stem)
        chosen = self._chosen(functions)
        _check_distinct(prefix, [_name_of(one) for one in chosen])
        table = bool(constants)
        with self.settings():
            entries = IRModule()
            declared = [_entry(entries, prefix, one, table) for one in chosen]
            weights, contents = _weights_of(place.stem, constants, embed)
            embedded = b"".join(contents) if embed else b""
            if is_source:
                source = self._source(prefix, entries, embedded)
            else:
                is_local = self._write_object(place, prefix, entries, embedded)
        header = place.with_suffix(".h")
        build = f"cc main.c {place.name} -lm -lpthread"
        write_atomically(header, header_text(prefix, declared, weights, build, str(self.target)))
        written = [place, header]
        if is_source:
            write_atomically(place, source)
        elif not is_local:
            why = "no objcopy takes the code: kernels that two models of a program share collide"
            record_fallback("code", str(place), why)
        if weights is not None and not embed:
            written.append(place.with_name(weights.file))
            with replace_file(written[-1]) as file:
                for content in contents:
                    file.write(content)
        return [os.fspath(one) for one in written]

    def _chosen(self, names: Sequence[str] | None) -> list[GraphFunction]:
        """Return the functions to export. Raises errors for those that cannot be."""
        if self.has_external:
            raise UnsupportedError(
                "parts of this model are code of external generators, which C programs cannot call",
                notes=("build the model without RunCodegen",),
            )
        by_name = {_name_of(one): one for one in self.functions}
        public = [*[name for name in by_name if name not in self.refused], *self.refused]
        wanted = public if names is None else list(names)
        reasons = dict(self.refused)
        for name, one in by_name.items():
            if one.metadata["has_frame"]:
                reasons.setdefault(name, "sizes of its tensors depend on data")
        for name in wanted:
            if name not in public:
                raise UnknownNameError(
                    f"the model has no function '{name}'", notes=(f"it has: {', '.join(public)}",)
                )
        bad = [name for name in wanted if name in reasons]
        if bad:
            others = [name for name in public if name not in reasons]
            raise UnsupportedError(
                f"'{bad[0]}' cannot be a C function: {reasons[bad[0]]}",
                notes=(f"export others: export_c(path, {others})" if others else
                       "call it from Python, or by tvm-ffi from an exported library",),
            )  # fmt: skip
        return [by_name[name] for name in wanted]

    def _source(self, prefix: str, entries: IRModule, embedded: bytes) -> str:
        record = back_end_of(self.target)
        whole = lower_jobs(self.kernels.jobs.values(), self.target)
        symbols = [variable.name_hint for variable in whole.functions]
        whole.update(lower_kernels(entries, self.target))
        text = part(record.generate)(whole, self.target, None).formats["c"]
        assert isinstance(text, str) and record.c_support_source is not None
        declared = re.compile(r"^extern [^{]*?;$", re.MULTILINE)
        _check_runtime(re.findall(r"\bTVMFFI\w+", declared.sub("", text)))
        # names that two models of one program may both have
        own = "".join([f"#define {name} {prefix}_{name}\n" for name in (*symbols, *_OWN_ERRORS)])
        return own + text + part(record.c_support_source)(prefix, embedded)

    def _write_object(self, place: Path, prefix: str, entries: IRModule, embedded: bytes) -> bool:
        """Write the object file; return whether its inner functions are invisible outside."""
        record = back_end_of(self.target)
        assert record.kernel_object is not None and record.c_support is not None
        compiled = compile_kernels(self.kernels.jobs.values())
        kernels = list(dict.fromkeys([compiled[key] for key in self.kernels.jobs]))
        entry = part(record.kernel_object)(lower_kernels(entries, self.target), self.target)
        for content in (*kernels, entry):
            _check_runtime([name.decode() for name in re.findall(rb"\bTVMFFI\w+", content)])
        shared = () if record.shared_objects is None else part(record.shared_objects)(self.target)
        support = part(record.c_support)(prefix, embedded, self.target)
        temporary = place.with_name(f".{place.name}.new")
        try:
            link_relocatable([*kernels, entry, *shared, support], temporary)
            is_local = keep_public(temporary, [f"{prefix}_*", "__tilesmith_*"])
            os.replace(temporary, place)
            return is_local
        finally:
            temporary.unlink(missing_ok=True)


def _check_runtime(names: Sequence[str]) -> None:
    if any(name not in _OWN_ERRORS for name in names):
        raise UnsupportedError(
            "the model calls functions of Tilesmith's runtime, which a C program does not have",
            notes=("such calls are R.call_dps_packed, T.call_packed, and operators without a "
                   "kernel; export the other functions alone",),
        )  # fmt: skip


class _WithoutMarks(Rewriter):
    """Drops the names of operators, with which the runtime completes the texts of errors."""

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return self.visit(node.body) if node.attr_key == "operator" else self.children(node)


def _name_of(graph: GraphFunction) -> str:
    return str(graph.function.attrs["global_symbol"])


def _symbol(prefix: str, name: str) -> str:
    """Return the C name of a function of the model."""
    return identifier(f"{prefix}_{name}")


def _check_distinct(prefix: str, names: Sequence[str]) -> None:
    """Raise UnsupportedError where a function would have the C name of another one."""
    taken = {f"{prefix}_{word}" for word in ("last_error", "set_threads", "weights", "embedded",
                                             "use_weights", "load_weights", "embedded_weights",
                                             "error", "append", "Task", "colon")}  # fmt: skip
    for name in names:
        own = {_symbol(prefix, name), _symbol(prefix, name) + "_sizes"}
        if own & taken:
            raise UnsupportedError(
                f"the function '{name}' would be called '{_symbol(prefix, name)}' in C, which is "
                "the name of something else",
                notes=("rename it, or export it alone under another file name",),
            )
        taken |= own


def _entry(module: IRModule, prefix: str, graph: GraphFunction, has_weights: bool) -> CFunction:
    """Add a graph function, and the one that computes sizes, to a module; describe both."""
    function, metadata = graph.function, graph.metadata
    name = _name_of(graph)
    symbol = _symbol(prefix, name)
    table, workspace = function.params[-2:]
    tensors = list(function.params[:-2])
    sizes = symbolic_sizes(function)
    needs_workspace = metadata["workspace_bytes"] != 0
    given: list[Var] = [*tensors, *sizes]
    body = _WithoutMarks().visit(function.body)
    for number, is_given, title in (
        (workspace, needs_workspace, "workspace"),
        (table, has_weights, "weights"),
    ):
        value: PrimExpr = const(0, "int64")
        if is_given:
            given.insert(len(tensors) + len(sizes), Var(title, "handle"))
            value = Call("int64", "tir.reinterpret", (given[len(tensors) + len(sizes)],))
        body = LetStmt(number, value, body)
    attrs = {**function.attrs, "global_symbol": symbol}
    module[symbol] = PrimFunc(given, body, None, function.buffer_map, attrs)
    names = _Names(["weights", "workspace"])
    params = _tensor_params(function, metadata, tensors, names)
    params += [CParameter(f"int64_t {names.of(one, one.name)}", "a size") for one in sizes]
    if has_weights:
        params.append(CParameter(f"const {prefix}_weights* weights", "the parameters"))
    if needs_workspace:
        bound = metadata["workspace_bytes"]
        text = f"{bound} bytes" if isinstance(bound, int) else "as many bytes as the sizes say"
        params.append(CParameter("void* workspace", f"{text}, aligned to 64, for one call at once"))
    bytes_ = metadata["workspace_bytes"]
    static = bytes_ if isinstance(bytes_, int) else None
    if graph.shapes_function is None:
        return CFunction(name, symbol, params, static)
    described = _sizes_entry(module, symbol, graph.shapes_function)
    return CFunction(name, symbol, params, static, described, _extents(metadata["result"]))


def _sizes_entry(module: IRModule, symbol: str, function: PrimFunc) -> list[CParameter]:
    """Add the function that computes sizes; it takes numbers and sizes, but no tensors."""
    inputs, buffer = function.params[:-1], function.params[-1]
    numbers = [one for one in inputs if one not in function.buffer_map]
    given = [*numbers, *symbolic_sizes(function), buffer]
    attrs = {**function.attrs, "global_symbol": f"{symbol}_sizes"}
    sizes = {buffer: function.buffer_map[buffer]}
    module[f"{symbol}_sizes"] = PrimFunc(given, function.body, None, sizes, attrs)
    names = _Names(["sizes"])
    params = [
        CParameter(f"{c_type(one.dtype)} {names.of(one, one.name)}", "a number or size")
        for one in given[:-1]
    ]
    return [*params, CParameter("int64_t* sizes", "is written")]


class _Names:
    """Gives the parameters of a function distinct C names."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._taken = set(taken)

    def of(self, param: Any, wanted: str) -> str:
        """Return the name of a parameter."""
        base = name = identifier(wanted)
        number = 1
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


def _tensor_params(
    function: PrimFunc, metadata: Mapping[str, Any], tensors: Sequence[Var], names: _Names
) -> list[CParameter]:
    """Return the parameters of tensors and numbers: inputs, then outputs."""
    written = {leaf["argument"] for leaf in _leaves(metadata["result"]) if "argument" in leaf}
    inputs = sum([_width(one) for one in metadata["params"]])
    found = []
    for number, param in enumerate(tensors):
        buffer = function.buffer_map.get(param)
        if buffer is None:
            kind = c_type(param.dtype)
            found.append(CParameter(f"{kind} {names.of(param, param.name)}", "a number or size"))
            continue
        is_input = number < inputs
        is_read = is_input and number not in written
        kind = "uint8_t" if is_packed(buffer.dtype) else c_type(buffer.dtype)
        word = ("input" if is_read else "is overwritten") if is_input else "output"
        found.append(
            CParameter(
                f"{'const ' if is_read else ''}{kind}* {names.of(param, buffer.name)}",
                f"{word}: {_type_text(buffer)}",
            )
        )
    return found


def _type_text(buffer: Buffer) -> str:
    inner = ", ".join([_plain(extent) for extent in buffer.shape])
    packed = ", packed" if is_packed(buffer.dtype) else ""
    return f"{buffer.dtype}[{inner}]{packed}"


def _plain(extent: Any) -> str:
    """Return the text of an extent without the dtypes of its numbers."""
    return re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(extent))


def _width(entry: Mapping[str, Any]) -> int:
    """Return how many arguments a parameter is."""
    if entry["kind"] == "tuple":
        return sum([_width(one) for one in entry["fields"]])
    return len(entry["shape"]) if entry["kind"] == "shape" else 1


def _leaves(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if entry["kind"] == "tuple":
        return [leaf for one in entry["fields"] for leaf in _leaves(one)]
    return [] if entry["kind"] == "none" else [entry]


def _extents(result: Mapping[str, Any]) -> list[str]:
    """Return what each of the computed sizes is."""
    found, number = [], 0
    for leaf in _leaves(result):
        kind = leaf["kind"]
        if "argument" in leaf:
            continue
        if kind == "tensor":
            found += [
                f"axis {k} of output_{number}: {_plain(e)}" for k, e in enumerate(leaf["shape"])
            ]
        elif kind == "shape":
            found += [f"a result: {_plain(extent)}" for extent in leaf["shape"]]
        number += kind != "shape"
    return [*found, "bytes of the workspace"]


def _weights_of(
    stem: str, constants: Mapping[str, Any], embed: bool
) -> tuple[CWeights | None, list[bytes | memoryview]]:
    """Return the description of the parameters, and the contents of their file."""
    if not constants:
        return None, []
    head, parts = header_and_parts(constants)
    offsets, place = [], len(head)
    contents = iter(parts)
    for _ in constants:
        offsets.append(place)
        place += len(next(contents))
        if place % 64:
            place += len(next(contents))
    if embed and place > _MOST_EMBEDDED:
        raise UnsupportedError(
            f"parameters of {place >> 20} MB are not embedded into code",
            notes=(f"more than {_MOST_EMBEDDED >> 20} MB stay in a file: leave out embed=True",),
        )
    names = [f"{name}: {value.dtype}{list(value.shape)}" for name, value in constants.items()]
    described = CWeights(
        f"{stem}.safetensors", names, offsets, place, len(head), checksum(head), embed
    )
    return described, [head, *parts]
