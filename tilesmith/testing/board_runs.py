"""Runs programs for boards on this machine: its C compiler stands for the board's.

    outputs, printed = run_here(lib.get_lib(), {"x": x})

The program is a process of its own; inputs and outputs are files beside it.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tilesmith.codegen.c.model_interface import model_prefix
from tilesmith.codegen.c_compiler import compiler_command
from tilesmith.relay.backend.board_module import BoardModule
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError, ExecutionError, UnknownNameError
from tilesmith.support.files import PathLike
from tilesmith.target import Target

__all__ = ["main_program", "run_here"]

_INPUTS, _OUTPUTS = "inputs.bin", "outputs.bin"
_WARNINGS = "-Wall -Wextra -Werror -Wno-unknown-pragmas".split()
_MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include "{prefix}.h"
{includes}
{memory}
void* space(size_t size) {{ return calloc(size + 1, 1); }}
int main(void) {{
  FILE* file = fopen("{inputs}", "rb");
  int32_t status = 0;
{before}
  fclose(file);
{prologue}
  status = {prefix}_run({arguments});
{epilogue}
  file = fopen("{outputs}", "wb");
{after}
  fclose(file);
  return status == 0 ? 0 : 1;
}}
"""


def main_program(
    library: BoardModule, includes: Sequence[str] = (), prologue: str = "", epilogue: str = ""
) -> str:
    """Write the C program that calls a model with structures of pointers; ``prologue`` and
    ``epilogue`` are statements around the call, ``includes`` further headers.
    """
    prefix, memory = model_prefix(library.module_name), library.memory
    pools, has_own_io = dict(memory["pools"]), bool(memory["io"])
    groups = {"inputs": library.inputs, "outputs": library.outputs}
    before, after = [], []
    if pools:
        values = ", ".join([f"{pool}_memory" for pool in pools])
        before.append(f"struct {prefix}_workspace_pools pools = {{{values}}};")
    for group, members in groups.items():
        values = "{" + (", ".join([f"space({one.nbytes})" for one in members]) or "0") + "}"
        if has_own_io:
            values = f"{prefix}_map_{group}({'&pools' if pools else ''})"
        before.append(f"struct {prefix}_{group} {group} = {values};")
    for one in library.inputs:
        read = f"fread(inputs.{one.member}, 1, {one.nbytes}, file)"
        before.append(f"if ({read} != {one.nbytes}) return 2;")
    after += [f"fwrite(outputs.{one.member}, 1, {one.nbytes}, file);" for one in library.outputs]
    arguments = [] if has_own_io else ["&inputs", "&outputs"]
    return _MAIN.format(
        prefix=prefix,
        includes="\n".join([f'#include "{one}"' for one in includes]),
        memory="\n".join(
            [
                f"static _Alignas({memory['alignment']}) uint8_t {pool}_memory[{size}];"
                for pool, size in pools.items()
            ]
        ),
        inputs=_INPUTS,
        outputs=_OUTPUTS,
        before=_indented(before),
        after=_indented(after),
        prologue=prologue,
        epilogue=epilogue,
        arguments=", ".join([*arguments, *(["&pools"] if pools else [])]),
    )


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(["  " + one for one in lines])


def run_here(
    library: BoardModule,
    inputs: Mapping[str, Any],
    folder: PathLike | None = None,
    main: str | None = None,
    further: Sequence[str] = (),
) -> tuple[list[numpy.ndarray], str]:
    """Compile a program without warnings, run it once; return its outputs, and what it prints.

    ``main`` is the text of the calling program, `main_program` by default; ``further`` are C files
    to be linked. The files go to ``folder``. Raises CodegenError without a compiler, or where it
    refuses the source, ExecutionError where the program ends with an error.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tilesmith-board-") as own:
            return run_here(library, inputs, own, main, further)
    place = Path(folder)
    files = library.save(place)
    (place / "main.c").write_text(main_program(library) if main is None else main, "utf-8")
    (place / _INPUTS).write_bytes(b"".join([_bytes(inputs, one) for one in library.inputs]))
    program = str(place / "program")
    words = ["-std=c11", "-O1", "-fwrapv", *_WARNINGS, "-I", str(place), "-o", program]
    command = [*compiler_command(Target("c")), *words, *files, *further, str(place / "main.c")]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise CodegenError("the C compiler refused the source", notes=("\n".join(lines[:12]),))
    ran = subprocess.run([program], cwd=place, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise ExecutionError(
            f"the program of '{library.module_name}' ended with the code {ran.returncode}",
            notes=(ran.stdout[-2000:] + ran.stderr[-2000:],),
        )
    content, start, outputs = (place / _OUTPUTS).read_bytes(), 0, []
    for one in library.outputs:
        flat = numpy.frombuffer(content[start : start + one.nbytes], DataType(one.dtype).numpy())
        outputs.append(flat.reshape(one.shape))
        start += one.nbytes
    return outputs, ran.stdout


def _bytes(inputs: Mapping[str, Any], tensor: Any) -> bytes:
    """Return an input as the bytes that the program reads."""
    if tensor.name not in inputs:
        raise UnknownNameError(
            f"the input '{tensor.name}' is not given", notes=("given: " + ", ".join(inputs),)
        )
    given = inputs[tensor.name]
    array = numpy.asarray(given.numpy() if hasattr(given, "numpy") else given)
    if array.shape != tensor.shape or str(array.dtype) != tensor.dtype:
        raise ExecutionError(
            f"the input '{tensor.name}' is {array.dtype}{list(array.shape)}, the model takes "
            f"{tensor.dtype}{list(tensor.shape)}"
        )
    return numpy.ascontiguousarray(array).tobytes()
