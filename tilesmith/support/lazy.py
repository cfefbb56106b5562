"""Resolves names at first use, and holds the table of doors.

`lazy_attributes` gives a module its `__getattr__` and `__dir__` from a table name → "module:attr"
("module" alone stands for the module itself):

    __getattr__, __dir__ = lazy_attributes(__name__, {"Schedule": "tilesmith.tir:Schedule"})

A *door* is a name that users expect below the code that does the work (`relax.build` lives in
`driver`). All doors stand in `DOORS`, so that the exceptions to "imports go down" can be read in
one place. Doors are for users: with TILESMITH_CHECK_INSIDE a door raises when a module of
Tilesmith goes through it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Protocol

DOORS: dict[str, dict[str, str]] = {
    "tilesmith.arith": {
        "domain_touched": "tilesmith.tir.analysis.access_region:domain_touched",
    },
    "tilesmith.contrib.cblas": {
        name: "tilesmith.te.library_calls:cblas_" + name for name in ("batch_matmul", "matmul")
    },
    "tilesmith.contrib.cublas": {
        name: "tilesmith.te.library_calls:cublas_" + name for name in ("batch_matmul", "matmul")
    },
    "tilesmith.contrib.cublaslt": {
        "matmul": "tilesmith.te.library_calls:cublaslt_matmul",
    },
    "tilesmith.contrib.dnnl": {
        "dnnl_conv2d": "tilesmith.te.library_calls:dnnl_conv2d",
        "matmul": "tilesmith.te.library_calls:dnnl_matmul",
    },
    "tilesmith.contrib.mkl": {
        name: "tilesmith.te.library_calls:mkl_" + name
        for name in ("batch_matmul", "matmul", "matmul_u8s8s32")
    },
    "tilesmith.contrib.peak": {
        name: "tilesmith.inspect.peak:" + name
        for name in (
            "measure_bandwidth_all_types",
            "measure_bandwidth_sum",
            "measure_compute_all_types",
            "measure_compute_mad",
            "measure_peak_all",
        )
    },
    "tilesmith.contrib.random": {
        name: "tilesmith.te.library_calls:" + name for name in ("normal", "randint", "uniform")
    },
    "tilesmith.contrib.pipeline_executor_build": {
        name: "tilesmith.driver.pipeline_build:" + name
        for name in (
            "PipelineConfig",
            "build",
            "export_library",
            "pipeline_executor_build_enabled",
        )
    },
    "tilesmith.contrib.sparse": {
        name: "tilesmith.te.sparse:" + name
        for name in ("CSRPlaceholderOp", "SparsePlaceholderOp", "placeholder")
    },
    "tilesmith.relax": {
        "build": "tilesmith.driver.relax_build:build",
        "get_pipeline": "tilesmith.driver.pipelines:get_pipeline",
        "register_pipeline": "tilesmith.driver.pipelines:register_pipeline",
    },
    "tilesmith.relax.frontend.torch": {
        "relax_dynamo": "tilesmith.driver.torch_backend:relax_dynamo",
    },
    "tilesmith.relax.frontend.torch.dynamo": {
        "relax_dynamo": "tilesmith.driver.torch_backend:relax_dynamo",
    },
    "tilesmith.relay": {
        "bind_params_by_name": "tilesmith.driver.relay_build:bind_params_by_name",
        "build": "tilesmith.driver.relay_build:build",
        "create_executor": "tilesmith.driver.relay_executors:create_executor",
        "optimize": "tilesmith.driver.relay_build:optimize",
    },
    "tilesmith.relay.analysis": {
        "AnnotatedRegionSet": "tilesmith.relay.transform.annotated_regions:AnnotatedRegionSet",
        "get_calibration_data": "tilesmith.driver.relay_calibration:get_calibration_data",
        "list_fake_quantized_op_freqs": (
            "tilesmith.relay.transform.integer_graphs:list_fake_quantized_op_freqs"
        ),
    },
    "tilesmith.relay.backend.vm": {
        name: "tilesmith.driver.relay_vm:" + name
        for name in ("VMCompiler", "VMExecutor", "compile")
    },
    "tilesmith.relay.backend.graph_executor_codegen": {
        name: "tilesmith.driver.relay_build:" + name
        for name in ("GraphExecutorCodegen", "GraphRuntimeCodegen")
    },
    "tilesmith.relay.build_module": {
        **{
            name: "tilesmith.driver.relay_build:" + name
            for name in ("BuildModule", "bind_params_by_name", "build", "optimize")
        },
        **{
            name: "tilesmith.driver.relay_executors:" + name
            for name in ("AotExecutor", "GraphExecutor", "create_executor")
        },
    },
    "tilesmith.script": {
        "relax": "tilesmith.relax.script",
    },
    "tilesmith.tir": {
        "build": "tilesmith.lowering:build",
    },
    "tilesmith.tir.analysis": {
        "get_vtcm_compaction_passes": (
            "tilesmith.tir.transform.vtcm_compaction:get_vtcm_compaction_passes"
        ),
    },
    "tilesmith.tir.transform": {
        "DefaultGPUSchedule": "tilesmith.schedule_rules.default_gpu_schedule:DefaultGPUSchedule",
    },
    "tilesmith.runtime.executable": {
        "profile": "tilesmith.inspect.kernel_profile:profile",
    },
    "tilesmith.runtime": {
        "Object": "tilesmith.ir:Node",
        "const": "tilesmith.ir:const",
        "convert": "tilesmith.ir:convert",
    },
}
"""Module → name → where it lives. Modules that have doors call `lazy_attributes(__name__)`."""


def resolve(path: str) -> Any:
    """Import and return the object at "module:attr" or the module at "module"."""
    module, _, attribute = path.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split(".") if attribute else ():
        found = getattr(found, part)
    return found


class Finder(Protocol):
    """Finds names of a module that no table lists."""

    def find(self, name: str) -> Any:
        """Return the value of a name; raise AttributeError if there is none."""

    def public_names(self) -> list[str]:
        """Return all names that `find` knows."""


def lazy_attributes(
    module: str,
    table: Mapping[str, str] | None = None,
    doors: bool = False,
    finder: Finder | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for `module`, from `table` and the module's row in DOORS.

    With `doors`, the entries of `table` count as doors too (the package's own public names). The
    `finder` is asked for names that stand in neither.
    """
    own = dict(table or {})
    upward = dict(DOORS.get(module, {}))
    if doors:
        upward = {**upward, **own}
    for name, path in (own | upward).items():
        if path.startswith(f"{module}.{name}:"):
            # Importing the submodule would overwrite the attribute of the same name.
            from tilesmith.support.errors import InternalError

            raise InternalError(
                f"'{module}.{name}' would sometimes be the module of that name",
                notes=("give the module another name",),
            )

    def module_getattr(name: str) -> Any:
        path = own.get(name) or upward.get(name)
        if path is None:
            if finder is None or name.startswith("__"):
                raise AttributeError(f"module '{module}' has no attribute '{name}'")
            value = finder.find(name)
            setattr(sys.modules[module], name, value)
            return value
        # A subpackage under its own name is an import like any other; the layers contract sees it.
        is_door = name in upward and path != f"{module}.{name}"
        checked = is_door and _doors_are_checked()
        if checked:
            _refuse_from_inside(module, name, path)
        value = resolve(path)
        if not checked:
            # Stored for the next look-up, unless doors are checked: then each look-up comes here.
            setattr(sys.modules[module], name, value)
        return value

    def module_dir() -> list[str]:
        names = {*vars(sys.modules[module]), *own, *upward}
        if finder is not None:
            names.update(finder.public_names())
        return sorted(names)

    return module_getattr, module_dir


def _doors_are_checked() -> bool:
    from tilesmith.support.knobs import knobs  # not before a door is used: imports stay fast

    return bool(knobs.check_inside)


def _refuse_from_inside(module: str, name: str, path: str) -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    caller = frame.f_globals.get("__name__", "") if frame is not None else ""
    # `compat` is above everything and passes the doors on to its users.
    if caller.startswith("tilesmith.") and not caller.startswith("tilesmith.compat"):
        from tilesmith.support.errors import InternalError

        raise InternalError(
            f"{caller} goes through the door '{module}.{name}', which is for users",
            notes=(f"import it from where it lives: {path}",),
        )
