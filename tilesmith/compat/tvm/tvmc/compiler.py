"""``tvmc compile``: from a model to a package."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilesmith import relay
from tilesmith.compat.tvm.tvmc import composite_target, frontends
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.compat.tvm.tvmc.main import register_parser
from tilesmith.compat.tvm.tvmc.model import TVMCModel, TVMCPackage, check_folder
from tilesmith.compat.tvm.tvmc.pass_config import parse_configs
from tilesmith.compat.tvm.tvmc.pass_list import parse_pass_list_str
from tilesmith.compat.tvm.tvmc.registry import generate_registry_args, reconstruct_registry_entity
from tilesmith.compat.tvm.tvmc.shape_parser import parse_shape_string
from tilesmith.compat.tvm.tvmc.target import (
    generate_target_args,
    reconstruct_target_args,
    target_from_cli,
)
from tilesmith.compat.tvm.tvmc.transform import (
    CHANGES,
    apply_graph_transforms,
    generate_transform_args,
    is_relay,
    parse_graph_transform_args,
)
from tilesmith.compat.tvm.tvmc.workspace_pools import (
    generate_workspace_pools_args,
    workspace_pools_recombobulate,
)
from tilesmith.driver import relay_build, relay_vm
from tilesmith.ir import IRModule, Op
from tilesmith.ir.instrument import PassInstrument, PassTimingInstrument
from tilesmith.ir.pass_context import PassContext
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.relay.backend.executor_factory import GraphExecutorFactoryModule
from tilesmith.relay.walks import post_order
from tilesmith.runtime.vm import Executable as VMExecutable
from tilesmith.support.files import write_atomically
from tilesmith.target import Target
from tilesmith.tir.transform import prim_func_pass

_GRAPH, _CPP = Executor("graph"), Runtime("cpp")
_LAST_PHASE = 3


@register_parser
def add_compile_parser(
    subparsers: Any, _: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]
) -> None:
    """Add the verb ``compile`` to a parser; ``json_params`` are defaults from a file."""
    parser = subparsers.add_parser(
        "compile", help="compile a model", usage="tvmc compile [options] FILE", allow_abbrev=False
    )
    parser.set_defaults(func=drive_compile)
    generate_target_args(parser)
    generate_registry_args(parser, Executor, "graph")
    generate_registry_args(parser, Runtime, "cpp")
    generate_transform_args(parser)
    generate_workspace_pools_args(parser)
    add = parser.add_argument
    add("--target-host", help="the target of code beside the kernels")
    add("--cross-compiler", default="", help="not called here; see the linker of ziglang")
    add("--cross-compiler-options", default="", help="options of the cross compiler")
    add(
        "--dump-code",
        default="",
        metavar="FORMATS",
        help="write what is in between beside the package: relay, tir, ll, asm, c",
    )
    add("--dump-offloads", default="", help="write which operators go to which compiler: FILE or -")
    add("--model-format", choices=frontends.get_frontend_names(), help="the format of the model")
    add("-o", "--output", default="module.tar", help="the package (default: module.tar)")
    add(
        "-f", "--output-format", choices=["so", "tar", "mlf"], default="so", help="form of the code"
    )
    add("--pass-config", action="append", metavar="NAME=VALUE", help="an option of PassContext")
    add("--print-pass-times", action="store_true", help="print the time that each pass takes")
    for when in ("before", "after"):
        add(
            f"--print-ir-{when}",
            type=parse_pass_list_str,
            default="",
            metavar="PASSES",
            help=f"print the module {when} these passes",
        )
    add("--tuning-records", metavar="PATH", default="", help="records of tuning")
    add("-v", "--verbose", action="count", default=0, help="say more; repeatable")
    add("FILE", help="the model")
    add("-O", "--opt-level", default=3, type=int, choices=range(4), metavar="[0-3]")
    add("--input-shapes", type=parse_shape_string, default=None, metavar='"x:[1,3,224,224]"')
    add("--disabled-pass", type=parse_pass_list_str, default="", help="passes that do not run")
    add("--module-name", default="default", help="the name of the program in its library")
    add("--use-vm", action="store_true", help="compile for the virtual machine")
    for entry in json_params:
        parser.set_defaults(**entry)


def drive_compile(args: argparse.Namespace) -> int:
    """Compile as the command line says; return the exit code."""
    if not Path(args.FILE).is_file():
        raise TVMCException(f"there is no file {args.FILE}")
    model = frontends.load_model(args.FILE, args.model_format, args.input_shapes)
    options = reconstruct_target_args(args)
    target, beside = target_from_cli(args.target, options)
    compile_model(
        model,
        args.target,
        opt_level=args.opt_level,
        executor=reconstruct_registry_entity(args, Executor),
        runtime=reconstruct_registry_entity(args, Runtime),
        tuning_records=args.tuning_records,
        package_path=args.output,
        cross=args.cross_compiler,
        cross_options=args.cross_compiler_options,
        output_format=args.output_format,
        dump_code=args.dump_code,
        dump_offloads=args.dump_offloads,
        target_host=args.target_host,
        disabled_pass=args.disabled_pass,
        pass_context_configs=args.pass_config,
        additional_target_options=options,
        use_vm=args.use_vm,
        mod_name=args.module_name,
        workspace_pools=workspace_pools_recombobulate(args, [target], beside),
        print_pass_times=args.print_pass_times,
        print_ir_before=args.print_ir_before,
        print_ir_after=args.print_ir_after,
        **parse_graph_transform_args(args),
    )
    return 0


def compile_model(
    tvmc_model: TVMCModel,
    target: Any,
    opt_level: int = 3,
    executor: Executor | None = _GRAPH,
    runtime: Runtime | None = _CPP,
    tuning_records: str | None = None,
    package_path: str | None = None,
    cross: Any = None,
    cross_options: str | None = None,
    output_format: str = "so",
    dump_code: str | Sequence[str] | None = None,
    dump_offloads: str = "",
    target_host: Any = None,
    disabled_pass: str | Sequence[str] | None = None,
    pass_context_configs: Sequence[str] | None = None,
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
    use_vm: bool = False,
    mod_name: str = "default",
    workspace_pools: Any = None,
    print_pass_times: bool = False,
    print_ir_before: Sequence[str] | None = None,
    print_ir_after: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
    desired_layout: Any = None,
    desired_layout_ops: Sequence[str] | None = None,
    mixed_precision: bool = False,
    mixed_precision_ops: Sequence[str] | None = None,
    mixed_precision_calculation_type: str | None = None,
    mixed_precision_acc_type: str | None = None,
) -> TVMCPackage:
    """Compile a model and write it as a package.

    ``target``: a text as on the command line; further options of it by kind in
    ``additional_target_options``. ``dump_code``: formats ("relay", "tir", "ll", "asm", "c") that
    are written beside the package. ``pass_context_configs``: texts ``NAME=VALUE``.
    """
    if tuning_records:
        raise TVMCException("records of tuning are not read yet", notes=("leave them out",))
    if package_path is not None:
        check_folder(package_path)
    chosen, beside = target_from_cli(target, additional_target_options)
    if target_host:
        chosen = Target(chosen, target_from_cli(target_host)[0])
    changes = (
        desired_layout, desired_layout_ops, mixed_precision, mixed_precision_ops,
        mixed_precision_calculation_type, mixed_precision_acc_type,
    )  # fmt: skip
    mod = apply_graph_transforms(tvmc_model.mod, dict(zip(CHANGES, changes)))
    config, dumps = _prepared(parse_configs(pass_context_configs), _words(dump_code), mod)
    timing = [PassTimingInstrument()] if print_pass_times else []
    watching = [*(instruments or ()), *timing, _PrintIR(print_ir_before, print_ir_after)]
    with PassContext(opt_level, None, _words(disabled_pass), watching, config):
        divided = _divide(mod, tvmc_model.params, beside, dump_offloads)
        built = build(
            divided, chosen, executor or _GRAPH, runtime or _CPP, tvmc_model.params, use_vm,
            mod_name, workspace_pools,
        )  # fmt: skip
        for one in timing:
            print("time of the passes:", one.render(), sep="\n")
    _add_sources(dumps, _words(dump_code), built)
    path = tvmc_model.export_package(built, package_path, cross, cross_options, output_format)
    save_dumps(path, dumps)
    return TVMCPackage(path, use_vm=use_vm)


def _prepared(
    config: dict[str, Any], formats: Sequence[str], mod: IRModule
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of PassContext, and the texts that are known before compiling."""
    dumps: dict[str, Any] = {"relay": str(mod)} if "relay" in formats else {}
    return add_tir_to_dumps(config, dumps) if "tir" in formats else (config, dumps)


def _add_sources(dumps: dict[str, Any], formats: Sequence[str], built: Any) -> None:
    """Add the texts of the compiled program; refuse a graph that cannot be saved."""
    library = built.mod if isinstance(built, VMExecutable) else built.get_lib()
    if isinstance(built, GraphExecutorFactoryModule):
        _check_sizes(library)
    for form in formats:
        if form not in ("relay", "tir"):
            dumps[form] = library.get_source(form)


def _check_sizes(library: Any) -> None:
    """Raise TVMCException where inputs have open sizes: no graph with such tensors can be saved."""
    for one in library.get_function("main").signature.params:
        if not all(isinstance(size, int) for size in one.shape):
            raise TVMCException(
                f"the input '{one.name}' has open sizes, {tuple(one.shape)}, and the graph "
                "executor needs known ones",
                notes=(f'add: --input-shapes "{one.name}:[…]", or --executor aot',),
            )


def _words(text: str | Sequence[str] | None) -> list[str]:
    words = text.split(",") if isinstance(text, str) else list(text or ())
    return [word.strip() for word in words if word.strip()]


def _divide(
    mod: IRModule,
    params: Mapping[str, Any],
    beside: Sequence[Mapping[str, Any]],
    dump_offloads: str,
) -> IRModule:
    """Return a module whose parts for compilers of others are functions of their own."""
    initial = mod
    for one in beside:
        if not is_relay(mod):
            raise TVMCException(
                f"'{one['name']}' stands beside the target: models are divided among compilers "
                "where they are programs of Relay, this one was read as a graph of relax",
                notes=("leave it out of --target",),
            )
        if one["opts"]:
            raise TVMCException(f"the compiler '{one['name']}' has no options")
        divide = composite_target.get_codegen_by_target(one["name"])["pass_pipeline"]
        mod = divide(mod, params)
    if dump_offloads:
        dump_operation_offloads(mod, initial, dump_offloads)
    return mod


def build(
    mod: IRModule,
    tvm_target: Any,
    executor: Executor,
    runtime: Runtime,
    params: Mapping[str, Any] | None,
    use_vm: bool,
    mod_name: str,
    workspace_pools: Any,
) -> Any:
    """Compile a module, for the virtual machine or for an executor."""
    if use_vm:
        return relay_vm.compile(mod, target=tvm_target, params=params)
    return relay_build.build(
        mod,
        target=tvm_target,
        executor=executor,
        runtime=runtime,
        workspace_memory_pools=workspace_pools,
        params=params,
        mod_name=mod_name,
    )


class _PrintIR(PassInstrument):
    """Prints the module before and after passes of some names."""

    def __init__(self, before: Sequence[str] | None, after: Sequence[str] | None) -> None:
        self.before, self.after = frozenset(before or ()), frozenset(after or ())

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Print the module that a pass gets."""
        if info.name in self.before:
            print(f"before {info.name}:", mod, sep="\n")

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        """Print what a pass has made."""
        if info.name in self.after:
            print(f"after {info.name}:", mod, sep="\n")


def add_tir_to_dumps(
    config: Mapping[str, Any], dumps: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options of PassContext with a last step that keeps each kernel's text, and the dumps
    that it writes to: a list of texts under "tir".
    """
    texts: list[str] = []

    def keep(function: Any, mod: Any, context: Any) -> Any:
        texts.append(str(function))
        return function

    last = (_LAST_PHASE, prim_func_pass(keep, opt_level=0))
    steps = [*(config.get("tir.add_lower_pass") or ()), last]
    return {**config, "tir.add_lower_pass": steps}, {**dumps, "tir": texts}


def save_dumps(module_name: str, dumps: Mapping[str, Any], dump_root: str = ".") -> None:
    """Write texts as files ``MODULE_NAME.FORMAT`` in a folder."""
    for form, text in dumps.items():
        whole = text if isinstance(text, (str, bytes)) else "\n\n".join(text)
        write_atomically(Path(dump_root) / f"{module_name}.{form}", whole)


def dump_operation_offloads(mod: IRModule, initial_mod: IRModule, dump_path: str) -> None:
    """Write how many calls of each operator of a model stay with the target, and how many go to
    which compiler of others; to a file, or to the standard output where the path is "-".
    """
    counts: dict[str, Counter[str]] = {"the target": Counter()}
    whole: Counter[str] = Counter()
    for function in mod.functions.values():
        compiler = function.attrs.get("Compiler") if isinstance(function, relay.Function) else None
        found = counts.setdefault(str(compiler) if compiler else "the target", Counter())
        found.update(_operators(function))
    for function in initial_mod.functions.values():
        whole.update(_operators(function))
    lines = [f"{sum(whole.values())} calls of operators"]
    for where, found in counts.items():
        lines.append(f"{where}: {sum(found.values())}")
        lines += [f"  {name}: {count} of {whole[name]}" for name, count in sorted(found.items())]
    text = "\n".join(lines) + "\n"
    if dump_path == "-":
        sys.stdout.write(text)
    else:
        write_atomically(dump_path, text)


def _operators(function: Any) -> list[str]:
    """Return the names of the operators that a function calls, once for each call."""
    if not isinstance(function, relay.Function):
        return []
    calls = [node for node in post_order(function.body) if isinstance(node, relay.Call)]
    return [call.op.name for call in calls if isinstance(call.op, Op)]
