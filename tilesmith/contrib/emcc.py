"""Links for WebAssembly with Emscripten."""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.contrib.programs import find_program, listed, run_program

__all__ = ["create_tvmjs_wasm"]

_ADVICE = "install Emscripten: https://emscripten.org/docs/getting_started/downloads.html"


def create_tvmjs_wasm(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str = "emcc",
    libs: Sequence[str] | None = None,
) -> None:
    """Make a WebAssembly module from object files and the libraries ``libs``.

    Functions that the module lacks are taken from the page that loads it.
    """
    command = [
        find_program((cc,), _ADVICE), "-O3", "-std=c++17", "--no-entry", "-sSTANDALONE_WASM=1",
        "-sERROR_ON_UNDEFINED_SYMBOLS=0", "-sALLOW_MEMORY_GROWTH=1", "-sWASM_BIGINT=1",
    ]  # fmt: skip
    run_program([*command, "-o", output, *listed(objects), *(libs or ()), *(options or ())])


create_tvmjs_wasm.object_format = "bc"  # type: ignore[attr-defined]
create_tvmjs_wasm.output_format = "wasm"  # type: ignore[attr-defined]
