"""Compiles and links for Apple's systems with the tools of Xcode, on a Mac."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tilesmith.contrib.programs import find_program, listed, run_program
from tilesmith.contrib.utils import tempdir
from tilesmith.support.errors import MissingDependencyError

__all__ = ["compile_coreml", "compile_metal", "create_dylib", "xcrun"]

_ADVICE = "run this on a Mac with Xcode's tools: xcode-select --install"


def xcrun(cmd: Sequence[str]) -> str:
    """Run a tool of Xcode and return what it writes."""
    return run_program([find_program(("xcrun",), _ADVICE), *cmd]).strip()


def _oldest(sdk: str, min_os_version: str | None) -> list[str]:
    """Return the option for the oldest system on which the code has to run."""
    words = {"macosx": "macos", "iphoneos": "ios", "iphonesimulator": "ios-simulator"}
    if min_os_version is None or sdk not in words:
        return []
    return [f"-m{words[sdk]}-version-min={min_os_version}"]


def create_dylib(
    output: str,
    objects: str | Sequence[str],
    arch: str,
    sdk: str = "macosx",
    min_os_version: str | None = None,
) -> None:
    """Make a dynamic library from object files for an architecture ("arm64") and a system."""
    clang = xcrun(["-sdk", sdk, "-find", "clang"])
    root = xcrun(["-sdk", sdk, "--show-sdk-path"])
    flags = ["-dynamiclib", "-arch", arch, "-isysroot", root, *_oldest(sdk, min_os_version)]
    run_program([clang, *flags, "-o", output, *listed(objects)])


def compile_metal(
    code: str,
    path_target: str | None = None,
    sdk: str = "macosx",
    min_os_version: str | None = None,
) -> bytearray:
    """Compile source in Metal's language to a library of kernels; ``path_target`` is a file into
    which it is written as well.
    """
    with tempdir() as folder:
        source, code_of_air, made = [folder.relpath(f"kernel.{end}")
                                     for end in ("metal", "air", "metallib")]  # fmt: skip
        Path(source).write_text(code)
        flags = ["-O3", *_oldest(sdk, min_os_version)]
        xcrun(["-sdk", sdk, "metal", *flags, "-c", source, "-o", code_of_air])
        xcrun(["-sdk", sdk, "metallib", code_of_air, "-o", made])
        content = Path(made).read_bytes()
    if path_target is not None:
        Path(path_target).write_bytes(content)
    return bytearray(content)


def compile_coreml(model: object, model_name: str = "main", out_dir: str = ".") -> str:
    """Compile a model of `coremltools` into ``out_dir``; return the path of the compiled folder."""
    save, spec = getattr(model, "save", None), getattr(model, "get_spec", None)
    if save is None or spec is None:
        raise MissingDependencyError("coremltools", purpose="making a model for Core ML")
    path = os.path.join(out_dir, f"{model_name}.mlmodel")
    save(path)
    description = spec().description
    names = {
        "inputs": [one.name for one in description.input],
        "outputs": [one.name for one in description.output],
    }
    xcrun(["coremlcompiler", "compile", path, out_dir])
    made = os.path.join(out_dir, f"{model_name}.mlmodelc")
    Path(made, "properties").write_text(json.dumps(names))
    return made
