"""Defines `VirtualMachine`, the interface through which users run a built model; compiled code does
the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.runtime.device_models import ModelOnDevice, model_on
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.kernel_instrument import KernelInstrument
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.profiling import Count, Duration, Metric, Percent, Report
from tilesmith.runtime.program_calls import INSTRUMENT, VMInstrumentReturnKind
from tilesmith.runtime.stretches import Stretch, profiled_stretches
from tilesmith.runtime.timing import BenchmarkResult, evaluator
from tilesmith.support.errors import TypeMismatchError, UnknownNameError, UnsupportedError

__all__ = ["VMInstrumentReturnKind", "VirtualMachine"]


class VirtualMachine:
    """Runs the functions of a model: `vm["main"](x)`.

    `rt_mod` is what `relax.build` gave, or what `load_module` loaded; `device` is where it runs (of
    a list, the first one of the type that the model was built for). Inputs of a model for other
    devices than the host have to be there, and results stay there.
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    copies_inputs = False
    """Whether inputs that are not on the device are copied to it; else they are refused."""

    def __init__(
        self,
        rt_mod: Executable | Module,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: Any = None,
        profile: bool = False,
    ) -> None:
        module = getattr(rt_mod, "mod", rt_mod)
        if not isinstance(module, (Executable, Module)):
            raise TypeMismatchError(
                f"a virtual machine runs what relax.build gives, got {type(rt_mod).__name__}"
            )
        given = [] if device is None else [device] if isinstance(device, Device) else list(device)
        self.module: Any = module
        if isinstance(module, Executable):
            self.module = model_on(module, given, self.copies_inputs)
        self.device: Device | None = getattr(self.module, "device", given[0] if given else None)
        self._saved: dict[str, Callable[..., Any]] = {}
        self._inputs: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._outputs: dict[str, Any] = {}
        self._instrument: Callable[..., Any] | None = None
        self._kernels: KernelInstrument | None = None

    def __getitem__(self, key: str) -> Callable[..., Any]:
        saved = self._saved.get(key)
        if self._kernels is not None and saved is None:
            return self._kernels.function(key)
        function: Callable[..., Any] = self.module[key] if saved is None else saved
        return function if self._instrument is None else self._observed(function)

    def _observed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls inside are shown to the instrument."""

        def run(*args: Any, **kwargs: Any) -> Any:
            token = INSTRUMENT.set(self._instrument)
            try:
                return function(*args, **kwargs)
            finally:
                INSTRUMENT.reset(token)

        return run

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function that another function of the model returned."""
        return closure(*args)

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **kwargs: Any,
    ) -> None:
        """Bind a function to arguments: `vm[saved_name]()` then calls it, and returns its result if
        `include_return` is true.
        """
        function = self[func_name]

        def saved() -> Any:
            result = function(*args, **kwargs)
            return result if include_return else None

        self._saved[saved_name] = saved

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep inputs for `invoke_stateful`; plain numbers and lists become tensors."""
        values = tuple([_as_input(value, self.device) for value in args])
        named = {name: _as_input(value, self.device) for name, value in kwargs.items()}
        self[func_name]  # an unknown name is reported here, not at the call
        self._inputs[func_name] = (values, named)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the inputs of `set_input`, and keep its result."""
        if func_name not in self._inputs:
            raise UnknownNameError(
                f"no inputs are set for '{func_name}'", notes=("call set_input first",)
            )
        values, named = self._inputs[func_name]
        model = self.module
        is_divided = isinstance(model, ModelOnDevice) and len(model.devices) > 1
        function = model.copying(func_name) if is_divided else self[func_name]
        self._outputs[func_name] = function(*values, **named)

    def get_outputs(self, func_name: str) -> Any:
        """Return the result of the last `invoke_stateful`."""
        if func_name not in self._outputs:
            raise UnknownNameError(
                f"'{func_name}' has no outputs yet", notes=("call invoke_stateful first",)
            )
        return self._outputs[func_name]

    def set_instrument(self, instrument: Any) -> None:
        """Show calls to an instrument (None: to none any more), as
        ``instrument(function, name, before_run, result, *arguments)``.

        Programs that run step by step show registered functions, functions of the model and native
        parts; before a call it may return ``VMInstrumentReturnKind.SKIP_RUN``. Native code shows
        its kernels, with copies of their inputs, after the call followed by copies of what they
        wrote; the function is None then, and no call can be left out. It is compiled once more for
        this, so that it has to be a model of this process, not one from a file.
        """
        model = self.module
        has_steps = bool(getattr(model, "metadata", {}).get("programs"))
        if instrument is not None and isinstance(model, ModelOnDevice) and not has_steps:
            raise UnsupportedError(
                f"kernels that run on {model.device} cannot be observed: they run after the call",
                notes=("observe the model built for 'llvm', or use the device's profiler",),
            )
        if instrument is not None and not has_steps:
            if not isinstance(model, Executable) or model.observed_program is None:
                raise UnsupportedError(
                    "the model runs as native code that was not compiled in this process: its "
                    "kernels cannot be observed",
                    notes=("give the virtual machine what relax.build returns",),
                )
            self._kernels = KernelInstrument(model.observed_program(), instrument)
        else:
            self._kernels = None
        self._instrument = instrument

    def profile(self, func_name: str, *args: Any, **kwargs: Any) -> Report:
        """Call a function and report the time: of the whole, of each region that was compiled with
        the option `tir.instrument_lwp`, and of each kernel, unless the program was loaded from a
        file.
        """
        function, device = self[func_name], self.device or cpu()
        devices = getattr(self.module, "devices", (device,))
        before = profiled_stretches()
        begin = time.perf_counter()
        function(*args, **kwargs)
        for one in devices:
            one.sync()
        whole = time.perf_counter() - begin
        spans = {func_name: (1, whole)}
        for number, stretch in profiled_stretches().items():
            earlier = before.get(number, Stretch(0, 0.0))
            if stretch.count > earlier.count:
                spans[f"region {number}"] = (
                    stretch.count - earlier.count,
                    stretch.seconds - earlier.seconds,
                )
        calls: list[dict[str, Metric]] = [
            {
                "Name": name,
                "Duration (us)": Duration(seconds * 1e6),
                "Percent": Percent(100 * seconds / whole),
                "Count": Count(count),
                "Device": str(device),
            }
            for name, (count, seconds) in spans.items()
        ]
        model = self.module
        if getattr(model, "observed_program", None) is not None:
            options = {"function": func_name, "runs": 1, "warmup": 1, "peak": False}
            calls += model.profile_function(args, kwargs, **options).calls
        return Report(calls, {str(device): {"Duration (us)": Duration(whole * 1e6)}})

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Return a function of the arguments that measures `func_name` on them."""
        return evaluator(
            self[func_name],
            dev,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            f_preproc=f_preproc,
        )


def _as_input(value: Any, device: Device | None) -> Any:
    """Return lists of numbers as tensors on the device, and arrays as such ones unless that is the
    host; everything else as it is.
    """
    if isinstance(value, (list, numpy.generic)):
        return array(value, device)
    is_elsewhere = device is not None and device.device_type != 1
    if is_elsewhere and isinstance(value, (numpy.ndarray, NDArray)):
        is_there = isinstance(value, NDArray) and value.device == device
        return value if is_there else array(value, device)
    return value
