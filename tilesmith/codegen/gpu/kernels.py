"""Writes functions: kernels, which the host launches, and functions that kernels call."""

from __future__ import annotations

from tilesmith.codegen.c_family.memory import pointed_dtype
from tilesmith.codegen.gpu.async_copies import queues_of_copies
from tilesmith.codegen.gpu.file_text import FileText
from tilesmith.codegen.gpu.limits import Extents, minimum_blocks
from tilesmith.codegen.gpu.lines import Lines
from tilesmith.codegen.gpu.proxy_fences import proxy_fences
from tilesmith.codegen.gpu.statements import StatementWriter
from tilesmith.codegen.gpu.tensor_maps import MAP_TYPE, declared_maps
from tilesmith.codegen.gpu.values import Values
from tilesmith.codegen.gpu.warpgroups import registers_of_products
from tilesmith.codegen.outcomes import ModuleOutcomes
from tilesmith.codegen.pointer_uses import pointer_uses
from tilesmith.ir import Var
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.tensor_copies import tile_alignments

__all__ = ["FunctionWriter", "returned_types"]


class FunctionWriter:
    """Writes one function of a module."""

    def __init__(self, file: FileText, functions: dict[str, PrimFunc], name: str, symbol: str,
                 target: Target) -> None:  # fmt: skip
        self.name, self.symbol = name, symbol
        self.out = Lines(symbol, file)
        self.out.kept |= {"dynamic_shared", MAP_TYPE}
        fast = str(target.attrs.get("fast-math", "")).lower() in ("1", "true")
        self.emit = Values(self.out, functions, fast)
        self.emit.arch = str(target.attrs.get("arch", ""))
        self.emit.warp_size = int(target.attrs.get("thread_warp_size") or 0)
        self.statements = StatementWriter(self.emit)
        self.dialect = file.dialect

    def kernel(self, function: PrimFunc, extents: Extents) -> str:
        """Return the text of a kernel, with a line about its threads above."""
        self.emit.parameters = {var: at for at, var in enumerate(function.params)}
        parameters, body = self._content(function)
        parameters += declared_maps(self.emit)
        if "dynamic_shared" in "\n".join(self.out.top):
            if self.dialect.name == "opencl":
                parameters.append("__local uchar* dynamic_shared")
            else:
                self.emit.file.declare(
                    "dynamic_shared",
                    "extern __shared__ __align__(1024) unsigned char dynamic_shared[];",
                )
        head = self.dialect.kernel.format(bounds=self._bounds(function, extents))
        written = self._finished(f"{head} {self.symbol}", parameters, body)
        maps = [f"//   {name}: {one}\n" for one, name in self.emit.tensor_maps.items()]
        return f"// {self.symbol}: {extents}\n{''.join(maps)}{written}"

    def function(self, function: PrimFunc, returns: str) -> str:
        """Return the text of a function of the device."""
        self.statements.returns = returns
        parameters, body = self._content(function)
        qualifier = "static __device__ " if self.dialect.name == "cuda" else "static "
        return self._finished(f"{qualifier}{returns} {self.symbol}", parameters, body)

    def _content(self, function: PrimFunc) -> tuple[list[str], list[str]]:
        uses = pointer_uses(function)
        exchanged = uses.exchanged
        self.emit.orders_global = any(
            self.dialect.space(var.storage_scope) == self.dialect.space("global")
            for var in exchanged
        )
        restrict = self.dialect.restrict if function.attrs.get("tir.noalias") else ""
        changed = uses.written | uses.escaped
        parameters = [
            self._parameter(var, "" if var in exchanged else restrict, var not in changed)
            for var in function.params
        ]
        self.emit.queues = queues_of_copies(function.body)
        self.emit.fences = proxy_fences(function.body)
        self.emit.product_registers = dict.fromkeys(registers_of_products(function.body), 0)
        for var, size in tile_alignments(function.body).items():
            self.emit.rely_on_alignment(var, size)
        self.statements.visit(function.body)
        return parameters, [*self.out.top, *self.out.lines]

    def _parameter(self, var: Var, restrict: str, is_read_only: bool) -> str:
        """Bind a parameter; return its declaration."""
        if var.dtype.lanes > 1:
            raise self.out.unsupported(f"parameter '{var.name}' is a vector")
        emit = self.emit
        name = emit.names[var] = self.out.fresh(var.name)
        if not var.dtype.is_handle:
            emit.file.use(var.dtype)
            if var.dtype.is_bool and self.dialect.name == "opencl":
                emit.names[var] = f"(bool){name}"
            return f"const {self.dialect.memory_type(var.dtype)} {name}"
        element = emit.pointer_types[var] = pointed_dtype(var)
        space = emit.spaces[var] = self.dialect.space(var.storage_scope)
        const = ""
        if is_read_only and element is not None:
            emit.read_only.add(var)
            const = "const "
        if element is not None:
            emit.file.use(element)
        kind = "void" if element is None else self.dialect.memory_type(element)
        return f"{const}{space}{kind}* {restrict}{name}"

    def _bounds(self, function: PrimFunc, extents: Extents) -> str:
        threads = extents.threads()
        if threads is None:
            return ""
        if self.dialect.name == "opencl":
            sizes = ", ".join([str(size) for size in extents.block()])
            return f"__attribute__((reqd_work_group_size({sizes}))) "
        least = minimum_blocks(function.body)
        return f"__launch_bounds__({threads}{f', {least}' if least else ''})"

    def _finished(self, head: str, parameters: list[str], body: list[str]) -> str:
        lines = ", ".join(parameters) or "void"
        if len(head) + len(lines) > 96:
            lines = "\n    " + ",\n    ".join(parameters)
        return f"{head}({lines}) {{\n" + "\n".join(body) + "\n}\n"


def returned_types(functions: dict[str, PrimFunc]) -> ModuleOutcomes:
    """Return what is known of the results of functions."""
    return ModuleOutcomes(functions, lambda allocation: True)
