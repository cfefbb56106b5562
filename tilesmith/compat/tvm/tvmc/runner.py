"""``tvmc run``: runs a package on this machine, or on another one by RPC."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.compat.tvm.tvmc.main import register_parser
from tilesmith.compat.tvm.tvmc.model import TVMCPackage, TVMCResult
from tilesmith.compat.tvm.tvmc.result_utils import get_top_results
from tilesmith.compat.tvm.tvmc.tracker import tracker_host_port_from_cli
from tilesmith.contrib.graph_executor import GraphModule
from tilesmith.rpc import connect, connect_tracker
from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.devices import device as find_device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.module import load_module
from tilesmith.runtime.ndarray import array
from tilesmith.runtime.params import load_param_dict
from tilesmith.runtime.profiler_vm import VirtualMachineProfiler
from tilesmith.runtime.vm import Executable as VMExecutable
from tilesmith.runtime.vm import VirtualMachine
from tilesmith.support.errors import TargetError, UnknownNameError

SUPPORT_MICRO = False
_DEVICES = ("cpu", "cuda", "cl", "metal", "vulkan", "rocm", "micro")
_FILL_MODES = ("zeros", "ones", "random")


@register_parser
def add_run_parser(
    subparsers: Any,
    main_parser: argparse.ArgumentParser,
    json_params: Sequence[Mapping[str, Any]],
) -> None:
    """Add the verb ``run`` to a parser; ``json_params`` are defaults from a file."""
    parser = subparsers.add_parser(
        "run", help="run a compiled model", usage="tvmc run [options] PACKAGE", allow_abbrev=False
    )
    parser.set_defaults(func=drive_run)
    add = parser.add_argument
    add("--device", choices=_DEVICES, default="cpu", help="where to run (default: cpu)")
    add("--fill-mode", choices=_FILL_MODES, default="random", help="inputs that are not given")
    add("-i", "--inputs", help="an .npz file with the inputs by name")
    add("-o", "--outputs", help="the .npz file that gets the outputs")
    add("--print-time", action="store_true", help="measure, and print the times")
    add("--print-top", metavar="N", type=int, help="print the N largest numbers of the output")
    add("--profile", action="store_true", help="measure one run, and print the report")
    add("--end-to-end", action="store_true", help="measure with the copies of inputs and outputs")
    add("--repeat", metavar="N", type=int, default=1, help="how often to measure (default: 1)")
    add("--number", metavar="N", type=int, default=1, help="runs of one measurement (default: 1)")
    add("--rpc-key", help="the key of devices at the tracker")
    add("--rpc-tracker", help="HOST:PORT of a tracker, or of a server where there is no key")
    add("-v", "--verbose", action="count", default=0, help="say more; repeatable")
    add("PATH", help="the package that tvmc compile wrote")
    for entry in json_params:
        parser.set_defaults(**entry)


def drive_run(args: argparse.Namespace) -> int:
    """Run as the command line says; return the exit code."""
    for name in ("repeat", "number", "print_top"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise TVMCException(f"--{name.replace('_', '-')} is at least 1")
    host, port = tracker_host_port_from_cli(args.rpc_tracker)
    result = run_module(
        TVMCPackage(args.PATH),
        args.device,
        hostname=host,
        port=port or 9090,
        rpc_key=args.rpc_key,
        inputs=_load_inputs(args.inputs) if args.inputs else {},
        fill_mode=args.fill_mode,
        benchmark=args.print_time,
        repeat=args.repeat,
        number=args.number,
        profile=args.profile,
        end_to_end=args.end_to_end,
    )
    if args.print_time:
        print(result.format_times())
    if args.print_top:
        print(get_top_results(result, args.print_top))
    if args.outputs:
        result.save(args.outputs)
    return 0


def _load_inputs(path: str) -> dict[str, numpy.ndarray]:
    """Return the arrays of an .npz file by name; nothing in it is unpickled."""
    try:
        loaded = numpy.load(path, allow_pickle=False)
        if isinstance(loaded, numpy.ndarray):
            raise TVMCException(f"{path} holds one array without a name", notes=("numpy.savez",))
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise TVMCException(f"there is no file {path}") from None
    except (ValueError, OSError, EOFError) as error:
        raise TVMCException(
            f"{path} cannot be read as inputs: {error}", notes=("write it with numpy.savez",)
        ) from None


def get_input_info(
    graph_str: str, params: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return shapes and dtypes of the inputs of a graph in JSON, its weights left out."""
    graph = json.loads(graph_str)
    shapes, dtypes = {}, {}
    rows = graph["node_row_ptr"]
    for place in graph["arg_nodes"]:
        name = graph["nodes"][place]["name"]
        if name not in params:
            shapes[name] = tuple(graph["attrs"]["shape"][1][rows[place]])
            dtypes[name] = graph["attrs"]["dltype"][1][rows[place]]
    return shapes, dtypes


def generate_tensor_data(shape: Sequence[int], dtype: str, fill_mode: str) -> numpy.ndarray:
    """Return an array of zeros, ones, or random numbers: floats of [0, 1), integers below 128."""
    kind = DataType(dtype)
    if fill_mode == "zeros":
        return numpy.zeros(shape, kind.numpy())
    if fill_mode == "ones":
        return numpy.ones(shape, kind.numpy())
    if fill_mode != "random":
        raise TVMCException(
            f"there is no fill mode '{fill_mode}'", notes=("modes: " + ", ".join(_FILL_MODES),)
        )
    random = numpy.random.default_rng()
    if kind.is_float:
        return random.random(shape).astype(kind.numpy())
    return random.integers(0, 2 if dtype == "bool" else 128, shape).astype(kind.numpy())


def make_inputs_dict(
    shape_dict: Mapping[str, Sequence[int]],
    dtype_dict: Mapping[str, str],
    inputs: Mapping[str, Any] | None = None,
    fill_mode: str = "random",
) -> dict[str, Any]:
    """Return a value for each input: the given one, else one that `generate_tensor_data` makes.

    Raises TVMCException for a name that is no input.
    """
    given = dict(inputs or {})
    unknown = [name for name in given if name not in shape_dict]
    if unknown:
        raise TVMCException(
            f"the model has no input '{unknown[0]}'",
            notes=("inputs: " + (", ".join(shape_dict) or "none"),),
        )
    return {
        name: given[name]
        if name in given
        else generate_tensor_data(_known(name, shape), dtype_dict[name], fill_mode)
        for name, shape in shape_dict.items()
    }


def _known(name: str, shape: Sequence[Any]) -> Sequence[int]:
    if not all(isinstance(size, int) for size in shape):
        raise TVMCException(
            f"the input '{name}' has open sizes, {tuple(shape)}: give its value",
            notes=("inputs={…}, or --inputs FILE.npz",),
        )
    return shape


def run_module(
    tvmc_package: TVMCPackage,
    device: str,
    hostname: str | None = None,
    port: str | int = 9090,
    rpc_key: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    fill_mode: str = "random",
    benchmark: bool = False,
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: Mapping[str, Any] | None = None,
) -> TVMCResult:
    """Run a package, here or (``hostname``) on another machine; inputs that are not given are
    filled in. ``benchmark`` measures ``repeat`` times ``number`` runs.
    """
    if not isinstance(tvmc_package, TVMCPackage):
        raise TVMCException(
            f"a package is needed, got {type(tvmc_package).__name__}",
            notes=("compile the model first: tvmc.compile(model, target=…)",),
        )
    if tvmc_package.type == "mlf":
        raise TVMCException(
            f"{tvmc_package.package_path} holds C files for a board, which do not run here",
            notes=(
                "compile them with the board's compiler; -f so makes a package for this machine",
            ),
        )
    there = _device(device)
    if options:
        raise TVMCException("options of projects are for boards, with which there are no sessions")
    if hostname:
        if there != cpu():
            raise TVMCException(
                "a package runs on the CPU of another machine, not on its other devices yet",
                notes=('device="cpu", or run it on the machine with the device',),
            )
        return _run_remotely(tvmc_package, (hostname, int(port), rpc_key), inputs, fill_mode,
                             benchmark, repeat, number, profile)  # fmt: skip
    library = load_module(tvmc_package.lib_path)
    _check_device(library, there)
    if tvmc_package.code is not None:
        return _run_machine(VMExecutable.load_exec(tvmc_package.code, library), inputs, fill_mode,
                            benchmark, repeat, number, profile, there)  # fmt: skip
    module = GraphModule(model_on(library, [there]))
    values = make_inputs_dict(*_inputs_of(module, tvmc_package), inputs, fill_mode)
    if profile:
        print(VirtualMachineProfiler(library, there).profile(**_arrays(values, there)))
    module.set_input(values)
    if not end_to_end or not benchmark:
        times = module.benchmark(there, repeat=repeat, number=number) if benchmark else None
    else:
        times = module.benchmark(
            there, repeat=repeat, number=number, end_to_end=True, **_arrays(values)
        )
    module.run()
    return TVMCResult(_outputs(module), times)


def _arrays(values: Mapping[str, Any], device: Device | None = None) -> dict[str, Any]:
    return {name: array(value, device) for name, value in values.items()}


def _check_device(library: Any, device: Device) -> None:
    """Raise TVMCException for a program that was compiled for other devices."""
    try:
        model_on(library, [device])
    except TargetError as error:
        raise TVMCException(error.message, notes=error.notes) from error


def _device(name: str) -> Device:
    """Return the device of a name. Raises TVMCException if there is none of that name."""
    try:
        return find_device(name)
    except UnknownNameError as error:
        raise TVMCException(error.message, notes=error.notes) from error


def _inputs_of(module: GraphModule, package: TVMCPackage) -> tuple[Any, Any]:
    """Return shapes and dtypes of a program's inputs, from its graph where it has one."""
    if package.graph is None:
        return module.get_input_info()
    params = load_param_dict(package.params) if package.params else {}
    return get_input_info(package.graph, params)


def _outputs(module: GraphModule) -> dict[str, numpy.ndarray]:
    return {
        f"output_{place}": module.get_output(place).numpy()
        for place in range(module.get_num_outputs())
    }


def _run_machine(
    executable: VMExecutable,
    inputs: Mapping[str, Any] | None,
    fill_mode: str,
    benchmark: bool,
    repeat: int,
    number: int,
    profile: bool,
    device: Device,
) -> TVMCResult:
    """Run a program of the virtual machine."""
    machine = VirtualMachine(executable, device)
    main: Any = executable["main"]
    params = main.signature.params
    shapes = {one.name: one.shape for one in params}
    dtypes = {one.name: str(one.dtype) for one in params}
    values = _arrays(make_inputs_dict(shapes, dtypes, inputs, fill_mode))
    if profile:
        print(VirtualMachineProfiler(executable.mod, device).profile(**_arrays(values, device)))
    times = None
    if benchmark:
        times = machine.benchmark(device, repeat=repeat, number=number, **values)
    machine.invoke_stateful("main", **values)
    found = machine.get_outputs()
    return TVMCResult({f"output_{place}": one.numpy() for place, one in enumerate(found)}, times)


def _run_remotely(
    package: TVMCPackage,
    place: tuple[str, int, str | None],
    inputs: Mapping[str, Any] | None,
    fill_mode: str,
    benchmark: bool,
    repeat: int,
    number: int,
    profile: bool,
) -> TVMCResult:
    """Run a package at a server: one that a tracker lends for a key, or the one at the address."""
    host, port, key = place
    if package.code is not None or profile:
        raise TVMCException("by RPC packages of the virtual machine do not run, nor profiles")
    session = connect_tracker(host, port).request(key) if key else connect(host, port)
    try:
        session.upload(package.lib_path)
        module = GraphModule(session.load_module(package.lib_name))
        values = make_inputs_dict(*_inputs_of(module, package), inputs, fill_mode)
        module.set_input(values)
        times = None
        if benchmark:
            times = module.benchmark(session.cpu(), repeat=repeat, number=number)
        module.run()
        return TVMCResult(_outputs(module), times)
    finally:
        session.close()
