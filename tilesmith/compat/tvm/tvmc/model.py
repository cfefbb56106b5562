"""What tvmc passes from one step to the next: a model, a package, results."""

from __future__ import annotations

import io
import json
import logging
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.contrib.tar import untar
from tilesmith.contrib.utils import TempDirectory, tempdir
from tilesmith.ir import IRModule, load_json, save_json
from tilesmith.micro.model_library_format import METADATA_FILE, export_model_library_format
from tilesmith.relay.backend.board_module import BoardModule
from tilesmith.relay.backend.executor_factory import ExecutorFactoryModule
from tilesmith.runtime.params import load_param_dict, save_param_dict
from tilesmith.runtime.timing import BenchmarkResult
from tilesmith.runtime.vm import Executable as VMExecutable
from tilesmith.support.errors import ArtifactError, CodegenError, UnsupportedError
from tilesmith.support.files import PathLike, make_atomically, write_atomically

logger = logging.getLogger("TVMC")

GRAPH, PARAMS, CODE = "mod.json", "mod.params", "code.ro"
_LIBRARY = "mod"
_FORMATS = ("so", "tar")
_OTHER_MACHINES = (
    'code for other machines (--target "llvm -mtriple=…") is stored with -f tar, and linked there '
    "when it is loaded"
)


class TVMCModel:
    """A model, before it is compiled: a module and the values of its weights.

    ``TVMCModel(mod, params)``, or ``TVMCModel(model_path=…)`` for what `save` wrote.
    """

    def __init__(
        self,
        mod: IRModule | None = None,
        params: Mapping[str, Any] | None = None,
        model_path: PathLike | None = None,
    ) -> None:
        if (mod is None) == (model_path is None):
            raise TVMCException(
                "a TVMCModel is made of a module and its params, or of the path of a saved one"
            )
        self.mod: IRModule
        self.params: dict[str, Any]
        if model_path is not None:
            self.load(model_path)
        else:
            assert mod is not None
            self.mod, self.params = mod, dict(params or {})
        self.folder: TempDirectory | None = None
        """The folder of this process for files without a place, once it is needed."""

    def _temporary(self, name: str) -> str:
        if self.folder is None:
            self.folder = tempdir()
        return self.folder.relpath(name)

    def save(self, model_path: PathLike) -> None:
        """Write the model as a tar file; `load`, and tvmc's other models, read it."""
        folder = tempdir()
        Path(folder.relpath(GRAPH)).write_text(save_json(self.mod), encoding="utf-8")
        Path(folder.relpath(PARAMS)).write_bytes(save_param_dict(self.params))
        _pack(model_path, folder, [GRAPH, PARAMS])

    def load(self, model_path: PathLike) -> None:
        """Take module and weights from a file that `save` wrote."""
        folder = _unpacked(model_path, [GRAPH, PARAMS])
        found = load_json(Path(folder.relpath(GRAPH)).read_text(encoding="utf-8"))
        if not isinstance(found, IRModule):
            raise TVMCException(f"{model_path} is no saved model: it holds {type(found).__name__}")
        self.mod = found
        self.params = load_param_dict(Path(folder.relpath(PARAMS)).read_bytes())

    def default_tuning_records_path(self) -> str:
        """Return where records of tuning go if no place is named: a file of this process."""
        return self._temporary("tuning_records")

    def default_package_path(self) -> str:
        """Return where a package goes if no place is named: a file of this process."""
        return self._temporary("model_package.tar")

    def export_vm_format(
        self, vm_exec: VMExecutable, package_path: PathLike | None = None, lib_format: str = "so"
    ) -> str:
        """Write a program of the virtual machine as a package; return its path."""
        path = str(package_path or self.default_package_path())
        code, library = vm_exec.save()
        folder = tempdir()
        name = _library_name(lib_format)
        library.export_library(folder.relpath(name))
        Path(folder.relpath(CODE)).write_bytes(code)
        _pack(path, folder, [name, CODE])
        return path

    def export_classic_format(
        self,
        executor_factory: ExecutorFactoryModule,
        package_path: PathLike | None = None,
        cross: Any = None,
        cross_options: str | None = None,
        lib_format: str = "so",
    ) -> str:
        """Write a compiled program as a package: its code, its graph where it has one, and its
        weights. Return the path.
        """
        if cross or cross_options:
            raise TVMCException(
                "no cross compiler is called",
                notes=(_OTHER_MACHINES,),
            )
        path = str(package_path or self.default_package_path())
        folder = tempdir()
        names = [_library_name(lib_format), PARAMS]
        try:
            executor_factory.get_lib().export_library(folder.relpath(names[0]))
        except CodegenError as error:
            raise TVMCException(
                f"the code cannot be linked here: {error.message.splitlines()[0]}",
                notes=(_OTHER_MACHINES,),
            ) from error
        Path(folder.relpath(PARAMS)).write_bytes(save_param_dict(executor_factory.get_params()))
        graph = _graph_of(executor_factory)
        if graph is not None:
            names.append(GRAPH)
            Path(folder.relpath(GRAPH)).write_text(graph, encoding="utf-8")
        _pack(path, folder, names)
        return path

    def export_mlf_format(self, executor_factory: Any, package_path: PathLike | None = None) -> str:
        """Write a program for a board as a package of C files; return the path."""
        if not isinstance(getattr(executor_factory, "lib", None), BoardModule):
            raise TVMCException(
                "packages of the format mlf hold programs for boards, this one was built for this "
                "machine",
                notes=("--target c --executor aot --executor-aot-interface-api c --runtime crt",),
            )
        path = str(package_path or self.default_package_path())
        export_model_library_format(executor_factory, path)
        return path

    def export_package(
        self,
        executor_factory: Any,
        package_path: PathLike | None = None,
        cross: Any = None,
        cross_options: str | None = None,
        output_format: str = "so",
    ) -> str:
        """Write what was compiled as a package, with its code as a shared library ("so") or as an
        artifact that needs no linker ("tar"); return the path.
        """
        if output_format == "mlf":
            return self.export_mlf_format(executor_factory, package_path)
        _library_name(output_format)
        if isinstance(getattr(executor_factory, "lib", None), BoardModule):
            raise TVMCException(
                f"programs for boards are not packed in the format {output_format}",
                notes=("-f mlf packs their C files",),
            )
        if isinstance(executor_factory, VMExecutable):
            return self.export_vm_format(executor_factory, package_path, output_format)
        return self.export_classic_format(
            executor_factory, package_path, cross, cross_options, output_format
        )

    def summary(self, file: Any = None) -> None:
        """Print the model as text, to ``file`` or the standard output."""
        print(self.mod, file=file if file is not None else sys.stdout)


def _graph_of(executor_factory: ExecutorFactoryModule) -> str | None:
    """Return the graph of a program as JSON. None where there is none, or where JSON cannot show it
    (open sizes, code of other compilers): the code runs without it.
    """
    try:
        graph = executor_factory.get_executor_config()
    except UnsupportedError as error:
        logger.warning("the package has no %s: %s", GRAPH, error.message)
        return None
    return graph if isinstance(graph, str) else None


def _library_name(lib_format: str) -> str:
    if lib_format not in _FORMATS:
        raise TVMCException(
            f"there is no format '{lib_format}' of packages", notes=("formats: so, tar, mlf",)
        )
    return f"{_LIBRARY}.{lib_format}"


def _pack(path: PathLike, folder: TempDirectory, names: list[str]) -> None:
    """Put files of a folder into a tar file: it is complete or does not exist."""

    def make(temporary: str) -> None:
        with tarfile.open(temporary, "w") as archive:
            for name in names:
                archive.add(folder.relpath(name), name)

    check_folder(path)
    make_atomically(path, make)


def check_folder(path: PathLike) -> None:
    """Raise TVMCException unless a file can be written at a path. Called before the long work."""
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise TVMCException(f"the folder {target.parent} does not exist")
    if target.is_dir():
        raise TVMCException(f"{path} is a folder", notes=("give the name of a file in it",))


def _unpacked(path: PathLike, needed: list[str]) -> TempDirectory:
    """Unpack a tar file into a folder of this process; no member leaves that folder."""
    if not Path(path).is_file():
        raise TVMCException(f"there is no file {path}")
    folder = tempdir()
    try:
        untar(str(path), folder.path)
    except ArtifactError as error:
        raise TVMCException(error.message, notes=error.notes) from None
    present = folder.listdir()
    missing = [name for name in needed if name not in present]
    if missing:
        raise TVMCException(f"{path} has no member {missing[0]}", notes=(f"it has: {present}",))
    return folder


class TVMCPackage:
    """A compiled model in a tar file; `import_package` looks into it."""

    def __init__(
        self, package_path: PathLike, project_dir: PathLike | None = None, use_vm: bool = False
    ) -> None:
        if project_dir is not None:
            raise TVMCException(
                "projects around programs for boards are not made here",
                notes=("give the path of a package",),
            )
        self.package_path = str(package_path)
        self.project_dir = None
        self.use_vm = use_vm
        self.home: TempDirectory | None = None
        """The folder of the model in which the package lies, if any: as long as it is needed."""
        self.import_package(package_path)

    def import_package(self, package_path: PathLike) -> None:
        """Unpack a package for as long as this object lives."""
        self._folder = _unpacked(package_path, [])
        names = self._folder.listdir()
        self.type = "mlf" if METADATA_FILE in names else "classic"
        if self.type == "mlf":
            self._import_mlf()
            return
        libraries = [f"{_LIBRARY}.{one}" for one in _FORMATS if f"{_LIBRARY}.{one}" in names]
        if not libraries:
            raise TVMCException(
                f"{package_path} is no package of tvmc: it has no {_LIBRARY}.so",
                notes=("tvmc compile writes packages",),
            )
        self.lib_name = libraries[0]
        self.lib_path = self._folder.relpath(self.lib_name)
        self.graph: str | None = self._text(GRAPH, names)
        params = self._folder.relpath(PARAMS)
        self.params: bytes | None = Path(params).read_bytes() if PARAMS in names else None
        code = self._folder.relpath(CODE)
        self.code: bytes | None = Path(code).read_bytes() if CODE in names else None
        if self.use_vm and self.code is None:
            raise TVMCException(f"{package_path} was not compiled for the virtual machine")
        self.executor_type = "graph" if self.graph is not None else "aot"
        if self.code is not None:
            self.executor_type = "vm"

    def _import_mlf(self) -> None:
        """Take what the metadata of a package for a board say."""
        path = Path(self._folder.relpath(METADATA_FILE))
        modules = json.loads(path.read_text("utf-8"))["modules"]
        if len(modules) != 1:
            raise TVMCException(
                f"{self.package_path} holds {len(modules)} programs, packages of tvmc hold one"
            )
        ((self.lib_name, described),) = modules.items()
        self.lib_path = self._folder.relpath("codegen/host/src")
        self.graph = self.code = None
        params = Path(self._folder.relpath(f"parameters/{self.lib_name}.params"))
        self.params = params.read_bytes()
        self.executor_type = described["executors"][0]

    def _text(self, name: str, names: list[str]) -> str | None:
        return Path(self._folder.relpath(name)).read_text("utf-8") if name in names else None


class TVMCResult:
    """What a run gave: outputs by name ("output_0", …), and the times that were measured."""

    def __init__(
        self, outputs: Mapping[str, numpy.ndarray], times: BenchmarkResult | None = None
    ) -> None:
        self.outputs = dict(outputs)
        self.times = times

    def format_times(self) -> str:
        """Return the times as a table: mean, median, most, least, and how far they spread."""
        return "nothing was measured" if self.times is None else str(self.times)

    def get_output(self, name: str) -> numpy.ndarray:
        """Return an output by name."""
        if name not in self.outputs:
            raise TVMCException(
                f"there is no output '{name}'", notes=("outputs: " + ", ".join(self.outputs),)
            )
        return self.outputs[name]

    def save(self, output_path: PathLike) -> None:
        """Write the outputs as an .npz file."""
        with io.BytesIO() as stream:
            numpy.savez(stream, **self.outputs)  # type: ignore[arg-type]
            write_atomically(output_path, stream.getvalue())

    def __str__(self) -> str:
        shown = [f"{name}: {one.dtype}{list(one.shape)}" for name, one in self.outputs.items()]
        return "\n".join(["outputs: " + (", ".join(shown) or "none"), self.format_times()])
