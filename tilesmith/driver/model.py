"""``tilesmith.compile``: compiles a model or module to an executable, using the cache of models.

Modules that only a compilation needs are imported late: a cached model loads without the compiler.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tilesmith.driver.object_models import (
    advice_for_object,
    import_exported_program,
    is_exported_program,
)
from tilesmith.driver.pool import FEWEST_FOR_WORKERS, start_workers
from tilesmith.driver.precision_options import LowPrecision, low_precision
from tilesmith.driver.settings import code_identity, deciding_settings
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.runtime.artifact import read_artifact
from tilesmith.runtime.executable import Executable
from tilesmith.support.cache import DiskCache, digest, file_digest
from tilesmith.support.collector import rare_collections
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    FrontendError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import collect_fallbacks, record_fallback
from tilesmith.support.file_memory import FileState, known, remember, remembered
from tilesmith.support.files import make_atomically
from tilesmith.support.summary import phase
from tilesmith.support.versions import version_digest
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of

__all__ = ["compile", "import_model", "model_key", "save_artifact"]

MODEL_CACHE = DiskCache("models")
_CONTENTS, _CHECKED, _AS_WRITTEN = "contents", "checksums of an artifact", "as written"


@rare_collections()
def compile(
    model_or_module: Any,
    target: Any = "llvm",
    *,
    input_shapes: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    cache: bool = True,
    bounds: str | None = None,
    precision: str | None = None,
    calibration: Iterable[Any] | None = None,
    calibration_method: str = "mse",
    force_precision: bool = False,
) -> Any:
    """Compile a model for a target and return an Executable.

    ``model_or_module``: the path of an ONNX file, an ``onnx.ModelProto``, what
    ``torch.export.export`` gives, an IRModule, a relax function. A PrimFunc, or a module of
    PrimFuncs alone, is built as by ``tilesmith.build`` and gives a ``runtime.Module``.
    ``input_shapes`` fixes sizes of inputs by name. ``cache=False`` compiles even if this model is
    in the cache. ``bounds="check"``: an access that is not proven to be inside of its buffer is
    checked when the model runs, as in ``tilesmith.build``.

    ``precision``: "bf16" multiplies bfloat16 and adds float32; "fp16" stores weights as float16;
    "int8" computes in integers, whose ranges come from ``calibration``: typical inputs, each a
    dictionary by name, a tuple, or one array. ``calibration_method`` is "mse", "percentile",
    "kl_divergence" or "max". Where the target has no instructions that make it faster, float32
    stays, and ``executable.fallbacks`` says so, unless ``force_precision``.
    """
    if bounds is not None:
        from tilesmith.lowering import checking_bounds

        with checking_bounds(bounds):
            return compile(
                model_or_module, target, input_shapes=input_shapes, params=params, cache=cache,
                precision=precision, calibration=calibration,
                calibration_method=calibration_method, force_precision=force_precision,
            )  # fmt: skip
    chosen = Target(target)
    _check_shapes(input_shapes)
    low = low_precision(precision, calibration, calibration_method, force_precision)
    cache = cache and calibration is None  # no key tells data apart that may not even be stored
    path = Path(model_or_module) if isinstance(model_or_module, (str, os.PathLike)) else None
    again = {"input_shapes": input_shapes, "precision": precision, "cache": False,
             "force_precision": force_precision}  # fmt: skip
    key = None
    may_be_cached = cache and path is not None and not params
    if path is not None and path.is_file() and not (may_be_cached and known(path, _CONTENTS)):
        _start_workers(path, chosen)  # which load while this process reads the model
    settings = deciding_settings() if may_be_cached else None
    if may_be_cached and path is not None and _can_be_cached(path, settings):
        with phase("looking for it in the cache"):
            key = model_key(path, chosen, input_shapes, {**(settings or {}), **low.settings})
            cached = _cached(key)
        if cached is not None:
            return _from_cache(cached, partial(_made_again, path, chosen, again, _held_settings()))
    if path is None and _is_tensor_program(model_or_module):
        return _built_functions(model_or_module, chosen, low)
    _start_workers(model_or_module, chosen)
    with phase("loading the compiler"):
        from tilesmith.driver.relax_build import build

    with collect_fallbacks() as importing, phase("importing"):
        modules = [import_model(model_or_module, input_shapes)]
    if low.dtype is None:
        executable = build(modules.pop(), chosen, params)  # which lets go of weights it replaced
    else:
        from tilesmith.driver.low_precision import build_low

        executable = build_low(modules.pop(), chosen, params, low)
    executable.add_fallbacks(importing)
    if key is not None and path is not None and executable.is_runnable:
        _store(key, path, executable)
    return executable


def _store(key: str, path: Path, executable: Executable) -> None:
    """Put the executable of a model file into the cache."""
    try:
        with phase("storing in the cache"):
            made = MODEL_CACHE.put_file(key, executable.save)
        if made is not None:
            remember(made, _CHECKED, _AS_WRITTEN)
            _note_stored(executable, made)
    except CodegenError as error:  # no linker can link it
        record_fallback("cache", str(path), error)


def _from_cache(cached: Executable, again: Callable[[], Executable]) -> Executable:
    """Return a model from the cache that compiles once more for what the cache does not hold."""
    cached.observed_program = partial(_asked, again, "observed_program")
    cached.c_interface = partial(_asked, again, "c_interface")
    if "precision" in cached.metadata:
        cached.accuracy_report = partial(_asked, again, "accuracy_report")
    return cached


def _held_settings() -> PassContext:
    return PassContext.current().without_instruments()


def _made_again(
    path: Path, target: Target, options: Mapping[str, Any], settings: PassContext
) -> Executable:
    """Compile a model from the cache once more, with the settings that it has there."""
    with settings:
        made: Executable = compile(path, target, **options)
    return made


def _asked(again: Callable[[], Executable], name: str, *arguments: Any) -> Any:
    """Ask a model that is compiled once more for what it was made for."""
    return getattr(again(), name)(*arguments)


def _built_functions(functions: Any, target: Target, low: LowPrecision) -> Any:
    """Build PrimFuncs."""
    if low.dtype is not None:
        raise UnsupportedError(
            "precision is for models; a PrimFunc has the dtypes that it was written with"
        )
    from tilesmith.lowering import build as build_functions

    return build_functions(functions, target=target)


def _start_workers(model: Any, target: Target) -> None:
    """Start workers if a model may hold enough kernels for them. Those that start without need
    would take processors from the first calls of the user's program.
    """
    if back_end_of(target).kernel_object is None:
        return
    nodes = getattr(getattr(model, "graph", None), "node", None)  # of an ONNX model
    if nodes is None or len(nodes) >= FEWEST_FOR_WORKERS:
        start_workers(target)


def _can_be_cached(path: Path, settings: Mapping[str, Any] | None) -> bool:
    """Return whether a key of the cache can tell all that decides what is compiled."""
    # a program that has converters of its own has imported the module
    converters = sys.modules.get("tilesmith.relax.frontend.onnx.op_converter")
    if settings is None:
        reason = "the PassContext holds a value that cannot be part of a cache key"
    elif converters is not None and converters.own_classes():
        reason = "converters of the program's own take part, which no cache key can tell apart"
    else:
        return True
    record_fallback("cache", str(path), reason)
    return False


def _cached(key: str) -> Executable | None:
    """Return the model stored under a key; a damaged entry is removed, to be made anew."""
    found = MODEL_CACHE.get_file(key)
    if found is None:
        return None
    try:
        remembered(found, _CHECKED, _checked)
        executable = Executable.load(found, check_contents=False)
    except (ArtifactError, OSError) as error:
        reason = str(error) if isinstance(error, OSError) else error
        record_fallback("cache", MODEL_CACHE.name, reason)
        MODEL_CACHE.drop_damaged(key, "it cannot be loaded")
        return None
    executable.fallbacks.record()
    _note_stored(executable, found)
    return executable


_stored: WeakKeyDictionary[Executable, FileState] = WeakKeyDictionary()
"""Where the cache holds executables, and the states of these files."""


def _note_stored(executable: Executable, path: Path) -> None:
    with contextlib.suppress(OSError):  # another process has removed it
        _stored[executable] = FileState.of(path)


def save_artifact(executable: Executable, path: Path) -> None:
    """Save an executable, as `Executable.save` does: where the cache holds its artifact, this one
    is copied.
    """
    stored = _stored.get(executable)
    if stored is not None:
        with contextlib.suppress(OSError):  # what is no longer there is made anew
            if FileState.of(stored.place) == stored:
                make_atomically(path, partial(shutil.copyfile, stored.place))
                return
    executable.save(path)


def _checked(artifact: Path) -> str:
    """Raise ArtifactError unless an artifact is as it was written."""
    read_artifact(artifact)
    return _AS_WRITTEN


def _check_shapes(shapes: Any) -> None:
    """Raise TypeMismatchError unless sizes of inputs are given by name."""
    if shapes is None:
        return
    example = 'such as {"image": (1, 3, 224, 224)}'
    if not isinstance(shapes, Mapping):
        kind = type(shapes).__name__
        raise TypeMismatchError(
            f"input_shapes maps names of inputs to shapes, got {kind}", notes=(example,)
        )
    for name, shape in shapes.items():
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise TypeMismatchError(
                f"input_shapes: the shape of '{name}' is a list of sizes, got {shape!r}",
                notes=(example,),
            )
        for size in shape:
            if isinstance(size, float) or (isinstance(size, str) and not size.isidentifier()):
                raise TypeMismatchError(
                    f"input_shapes: a size of '{name}' is an integer, or the name of a symbolic "
                    f"size, got {size!r}"
                )


def _is_tensor_program(model: Any) -> bool:
    """Return whether the input has PrimFuncs only, so that there is no graph to compile."""
    from tilesmith.tir import PrimFunc

    if isinstance(model, IRModule):
        functions = model.functions.values()
        return len(functions) > 0 and all(isinstance(each, PrimFunc) for each in functions)
    return isinstance(model, PrimFunc)


def model_key(
    path: Path, target: Target, shapes: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> str:
    """Return a digest of a model file, the data files beside it, and the compilation's settings."""
    try:
        files = json.loads(remembered(path, "files of an ONNX model", _files))
        contents = [remembered(file, _CONTENTS, file_digest) for file in files]
    except OSError:  # one is not there: what looks for them tells which
        contents = [file_digest(file) for file in json.loads(_files(path))]
    described = repr(sorted((name, tuple(shape)) for name, shape in (shapes or {}).items()))
    if settings:
        described += json.dumps(settings, sort_keys=True)
    return digest(*contents, code_identity(target), described, version_digest())


def _files(path: Path) -> str:
    """Return the places of an ONNX model and of the data files beside it, as JSON."""
    from tilesmith.relax.frontend.onnx import model_files

    return json.dumps([str(file.absolute()) for file in model_files(path)])


def import_model(model: Any, input_shapes: Mapping[str, Any] | None = None) -> IRModule:
    """Return a module for a model in any supported form."""
    if isinstance(model, IRModule):
        return model
    from tilesmith import relax
    from tilesmith.tir import PrimFunc

    if isinstance(model, relax.Function):
        return IRModule.from_expr(model)
    if isinstance(model, PrimFunc):
        raise UnsupportedError(
            "tilesmith.compile takes whole models; a PrimFunc is built with tilesmith.build",
        )
    if isinstance(model, (str, os.PathLike)) or type(model).__name__ == "ModelProto":
        from tilesmith.relax.frontend.onnx import from_onnx

        return from_onnx(model, shape_dict=dict(input_shapes) if input_shapes else None)
    if is_exported_program(model):
        return import_exported_program(model, input_shapes)
    raise FrontendError(
        f"{type(model).__module__}.{type(model).__name__} is not a model that can be compiled",
        notes=advice_for_object(model)
        or (
            "pass the path of an ONNX file, an onnx.ModelProto, a torch.export.ExportedProgram, an "
            "IRModule, or a relax function",
        ),
    )
