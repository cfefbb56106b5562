"""Reads models from files: one `Frontend` for each format."""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy

from tilesmith.compat.tvm.tvmc.errors import TVMCException, TVMCImportError
from tilesmith.compat.tvm.tvmc.model import TVMCModel
from tilesmith.ir import IRModule
from tilesmith.relay.frontend import (
    from_keras,
    from_onnx,
    from_pytorch,
    from_tensorflow,
    from_tflite,
)
from tilesmith.relay.frontend.keras import require_keras
from tilesmith.relay.parser import fromtext
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import array
from tilesmith.support.errors import FrontendError, MissingDependencyError

logger = logging.getLogger("TVMC")

Shapes = Mapping[str, Any] | None
Loaded = tuple[IRModule, dict[str, Any]]


class Frontend(ABC):
    """Reads the models of one format."""

    @staticmethod
    @abstractmethod
    def name() -> str:
        """Return the name of the format, as ``--model-format`` takes it."""

    @staticmethod
    @abstractmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files, without dots."""

    @abstractmethod
    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module and the weights of a file; ``shape_dict`` fixes shapes of inputs."""


def lazy_import(pkg_name: str, from_pkg_name: str | None = None, hide_stderr: bool = False) -> Any:
    """Import a package that only some formats need; TVMCImportError where it is missing."""
    try:
        return importlib.import_module(pkg_name, package=from_pkg_name)
    except ImportError as error:
        raise TVMCImportError(
            f"the package {pkg_name} is needed, and cannot be imported: {error}",
            notes=(f"pip install {pkg_name.partition('.')[0]}",),
        ) from None


class OnnxFrontend(Frontend):
    """Reads ONNX models."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "onnx"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["onnx"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module of a file; its weights are constants in it. ``kwargs`` are options of
        `relay.frontend.from_onnx`.
        """
        try:
            loaded: Loaded = from_onnx(path, shape_dict, **kwargs)
            return loaded
        except MissingDependencyError as error:
            raise TVMCImportError(error.message, notes=error.notes) from None


class PyTorchFrontend(Frontend):
    """Reads traced or scripted models of PyTorch (TorchScript)."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "pytorch"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["pth", "pt", "zip"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return module and weights of a file; ``shape_dict`` names the inputs, in order."""
        if not shape_dict:
            raise TVMCException(
                "a model of PyTorch does not tell the shapes of its inputs",
                notes=('add: --input-shapes "x:[1,3,224,224]"',),
            )
        torch = lazy_import("torch")
        try:
            model = torch.jit.load(path, map_location="cpu")
        except RuntimeError as error:
            raise TVMCException(
                f"{path} is no model in TorchScript: {str(error).splitlines()[0]}",
                notes=("save it with torch.jit.trace(model, example).save(path)",),
            ) from None
        loaded: Loaded = from_pytorch(model.eval(), list(shape_dict.items()), **kwargs)
        return loaded


class RelayFrontend(Frontend):
    """Reads programs in Relay's text format."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "relay"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["relay"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module of a text. With ``shape_dict``, the parameters of ``main`` that it does
        not name are weights, which get random values, always the same ones.
        """
        text = Path(path).read_text(encoding="utf-8")
        if not text.lstrip().startswith("#[version"):
            raise TVMCException(
                f"{path} is no program of Relay", notes=('its text begins #[version = "0.0.5"]',)
            )
        module: IRModule = fromtext(text)
        if shape_dict is None:
            logger.warning("without --input-shapes all parameters of main are inputs")
            return module, {}
        main: Any = module["main"]
        names = [param.name_hint for param in main.params]
        unknown = [name for name in shape_dict if name not in names]
        if unknown:
            raise TVMCException(
                f"main has no parameter '{unknown[0]}'", notes=("it has: " + ", ".join(names),)
            )
        weights = [one for one in main.params if one.name_hint not in shape_dict]
        return module, {param.name_hint: _random(param) for param in weights}


def _random(param: Any) -> Any:
    kind = param.type_annotation
    shape = [int(size) for size in kind.shape]
    values = numpy.random.default_rng(len(param.name_hint)).random(shape)
    return array(values.astype(DataType(kind.dtype).numpy()))


def _loaded(importer: Any, path: str, **kwargs: Any) -> Loaded:
    """Return what an importer makes of a file; a package that is missing is named."""
    try:
        loaded: Loaded = importer(path, **kwargs)
        return loaded
    except MissingDependencyError as error:
        raise TVMCImportError(error.message, notes=error.notes) from None
    except FrontendError as error:
        raise TVMCException(f"'{path}': {error.message}", notes=error.notes) from None


class KerasFrontend(Frontend):
    """Models of Keras."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "keras"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["h5", "keras"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module and the weights of a file; ``kwargs`` are options of
        `relay.frontend.from_keras`, whose layout is here what Keras says ("NHWC").
        """
        try:
            keras = require_keras()
        except MissingDependencyError as error:
            raise TVMCImportError(error.message, notes=error.notes) from None
        try:
            model = keras.models.load_model(path, compile=False)
        except (OSError, ValueError) as error:
            raise TVMCException(f"'{path}' is no model of Keras: {error}") from None
        loaded: Loaded = from_keras(model, shape_dict, **{"layout": "NHWC", **kwargs})
        return loaded

    def is_sequential_p(self, model: Any) -> bool:
        """Return whether a model of Keras is a plain sequence of layers."""
        return isinstance(model, require_keras().Sequential)

    def sequential_to_functional(self, model: Any) -> Any:
        """Return a sequence of layers as a model of inputs and outputs."""
        keras = require_keras()
        if not self.is_sequential_p(model):
            raise TVMCException(f"{type(model).__name__} is not a Sequential of Keras")
        start = keras.layers.Input(batch_shape=model.inputs[0].shape)
        value = start
        for layer in model.layers:
            value = layer(value)
        return keras.Model([start], [value])


class TensorflowFrontend(Frontend):
    """Frozen graphs of TensorFlow."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "pb"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["pb"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module and the weights of a file; ``kwargs`` are options of
        `relay.frontend.from_tensorflow`.
        """
        return _loaded(from_tensorflow, path, shape=shape_dict, **kwargs)


class TFLiteFrontend(Frontend):
    """Models of TensorFlow Lite."""

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "tflite"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["tflite"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> Loaded:
        """Return the module and the weights of a file; ``kwargs`` are options of
        `relay.frontend.from_tflite`.
        """
        return _loaded(from_tflite, path, shape_dict=shape_dict, **kwargs)


class PaddleFrontend(Frontend):
    """Models of PaddlePaddle, which are read after they were converted."""

    advice = "convert it to ONNX: paddle2onnx --model_filename MODEL.pdmodel --save_file M.onnx"

    @staticmethod
    def name() -> str:
        """Return the name of the format."""
        return "paddle"

    @staticmethod
    def suffixes() -> list[str]:
        """Return the suffixes of its files."""
        return ["pdmodel"]

    def load(self, path: str, shape_dict: Shapes = None, **kwargs: Any) -> NoReturn:
        """Raise TVMCException, which says how to convert the model."""
        raise TVMCException(
            f"models of {self.name()} are not read from files", notes=(self.advice,)
        )


ALL_FRONTENDS: list[type[Frontend]] = [
    KerasFrontend,
    OnnxFrontend,
    TensorflowFrontend,
    TFLiteFrontend,
    PyTorchFrontend,
    PaddleFrontend,
    RelayFrontend,
]


def get_frontend_names() -> list[str]:
    """Return the names of all formats."""
    return [frontend.name() for frontend in ALL_FRONTENDS]


def get_frontend_by_name(name: str) -> Frontend:
    """Return what reads a format; TVMCException for an unknown one."""
    for frontend in ALL_FRONTENDS:
        if name == frontend.name():
            return frontend()
    raise TVMCException(
        f"there is no format of models '{name}'",
        notes=("formats: " + ", ".join(get_frontend_names()),),
    )


def guess_frontend(path: str) -> Frontend:
    """Return what reads a file, by its suffix; TVMCException where the suffix is unknown."""
    suffix = Path(path).suffix.lower().lstrip(".")
    for frontend in ALL_FRONTENDS:
        if suffix in frontend.suffixes():
            return frontend()
    raise TVMCException(
        f"the suffix of {path} does not tell the model's format",
        notes=("add --model-format: " + ", ".join(get_frontend_names()),),
    )


def load_model(
    path: str, model_format: str | None = None, shape_dict: Shapes = None, **kwargs: Any
) -> TVMCModel:
    """Read a model from a file. Its format is that of its suffix, or ``model_format``;
    ``shape_dict`` fixes shapes of inputs that the model leaves open.
    """
    path = str(path)
    if model_format is not None:
        frontend = get_frontend_by_name(model_format)
    else:
        frontend = guess_frontend(path)
    if not Path(path).is_file():
        raise TVMCException(f"there is no file {path}")
    module, params = frontend.load(path, shape_dict, **kwargs)
    return TVMCModel(module, params)
