"""Declares kinds of targets: the word at the start of a target text, and the options that may
follow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.support.registry import Registry

CPU, CUDA, OPENCL, AOCL, VULKAN, METAL = 1, 2, 4, 5, 7, 8
ROCM, EXT_DEV, WEBGPU, HEXAGON = 10, 12, 15, 16

_ARCHITECTURE = r"sm_\d{2,3}[af]?"
_FORMS = {
    ("cuda", "arch"): (rf"{_ARCHITECTURE}|compute_\d{{2,3}}[af]?", "such as 'sm_90' or 'sm_90a'"),
    ("nvptx", "mcpu"): (_ARCHITECTURE, "such as 'sm_90'"),
}
"""Forms that the texts of some options have, by kind and option, and how that is said."""
_POSITIVE = ("max_threads_per_block", "max_num_threads", "thread_warp_size")

VALUE_TYPES = ("str", "int", "bool", "strings", "target", "targets")


@dataclass(frozen=True)
class TargetOption:
    """One option: its name, the type of its value (one of VALUE_TYPES) and its default."""

    name: str
    value_type: str
    default: Any = None

    def parse(self, text: str, kind: str) -> Any:
        """Return the value that `text` stands for on the command line of a target."""
        if self.value_type == "int":
            try:
                return int(text, 0)
            except ValueError:
                raise self._refused(text, kind, "a whole number") from None
        if self.value_type == "bool":
            lowered = text.lower()
            if lowered in ("1", "true", "on"):
                return True
            if lowered in ("0", "false", "off"):
                return False
            raise self._refused(text, kind, "0, 1, true or false")
        if self.value_type in ("strings", "targets"):
            return tuple(part for part in text.split(",") if part)
        return text

    def check(self, value: Any, kind: str) -> Any:
        """Return `value` in canonical form (sequences as tuples); TargetError when its type is
        wrong.
        """
        if self.value_type == "strings":
            parts = [value] if isinstance(value, str) else value
            if isinstance(parts, list | tuple) and all(isinstance(p, str) for p in parts):
                return tuple(parts)
            raise self._refused(value, kind, "a list of texts")
        if self.value_type == "targets":
            return tuple(value)
        if self.value_type == "bool" and value in (0, 1):
            return bool(value)
        expected = {"str": str, "int": int, "target": object}.get(self.value_type, object)
        if self.value_type == "bool" or not isinstance(value, expected):
            raise self._refused(value, kind, {"str": "a text", "int": "a whole number"}.get(
                self.value_type, "true or false"
            ))  # fmt: skip
        form, example = _FORMS.get((kind, self.name), ("", ""))
        if form and not re.fullmatch(form, str(value)):
            raise self._refused(value, kind, f"an architecture {example}")
        if not isinstance(value, int):
            return value
        if self.name in _POSITIVE and value < 1:
            raise self._refused(value, kind, "a positive whole number")
        if self.name.startswith("max_") and value < 0:
            raise self._refused(value, kind, "a whole number that is not negative")
        return value

    def _refused(self, value: Any, kind: str, expected: str) -> TargetError:
        return TargetError(
            f"option '{self.name}' of target kind '{kind}' expects {expected}, got {value!r}"
        )


def _options(declaration: str) -> dict[str, TargetOption]:
    """Parse options from words such as `max_num_threads:int=1024`."""
    result = {}
    for word in declaration.split():
        name, _, rest = word.partition(":")
        value_type, _, default = rest.partition("=")
        option = TargetOption(name, value_type)
        if default:
            option = TargetOption(name, value_type, option.parse(default, ""))
        result[name] = option
    return result


# Every kind has these.
GENERAL_OPTIONS = _options(
    "keys:strings tag:str device:str model:str libs:strings host:target from_device:int"
    " target_device_type:int"
)


class TargetKind:
    """A kind of target: its name, DLPack device type, default keys and declared options.

    `means_host` says that a target of this kind without a CPU means this machine's CPU with all its
    features. `dot_products_from` is the first number of an architecture ("sm_61") whose devices
    multiply and add packed 8-bit integers.
    """

    __slots__ = (
        "_options",
        "attrs",
        "default_keys",
        "device_type",
        "dot_products_from",
        "means_host",
        "name",
    )

    def __init__(
        self,
        name: str,
        device_type: int,
        default_keys: tuple[str, ...],
        options: str = "",
        means_host: bool = False,
        dot_products_from: int | None = None,
    ) -> None:
        self.name = name
        self.attrs: dict[str, Any] = {}
        """Further attributes by name, such as hooks of compiling: see `register_kind_attr`."""
        self.device_type = device_type
        self.default_keys = default_keys
        self.means_host = means_host
        self.dot_products_from = dot_products_from
        self._options: Mapping[str, TargetOption] = MappingProxyType(
            {**GENERAL_OPTIONS, **_options(options)}
        )

    @property
    def options(self) -> dict[str, str]:
        """Option name → type of its value."""
        return {name: option.value_type for name, option in self._options.items()}

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """Return the options of the kind that is called `kind_name`."""
        return target_kind(kind_name).options

    def option(self, name: str) -> TargetOption:
        """Return the declaration of one option; TargetError with the nearest name if there is
        none.
        """
        found = self._options.get(name)
        if found is not None:
            return found
        import difflib

        near = difflib.get_close_matches(name, self._options, n=1, cutoff=0.5)
        advice = f"did you mean '-{near[0]}'?" if near else "options: " + ", ".join(self._options)
        raise TargetError(f"target kind '{self.name}' has no option '-{name}'", notes=(advice,))

    def defaults(self) -> dict[str, Any]:
        """Return the options that have a default value."""
        return {n: o.default for n, o in self._options.items() if o.default is not None}

    def __repr__(self) -> str:
        return f"TargetKind({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TargetKind) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


KINDS: Registry[TargetKind] = Registry("target kind")


def target_kind(name: str) -> TargetKind:
    """Return the kind called `name`; TargetError with the nearest name if there is none."""
    kind = KINDS.get(name, None)
    if kind is not None:
        return kind
    import difflib

    near = difflib.get_close_matches(name, list(KINDS), n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else "kinds: " + ", ".join(sorted(KINDS))
    raise TargetError(f"unknown target kind '{name}'", notes=(advice,))


def declare_kind(
    name: str,
    device_type: int = CPU,
    keys: str = "cpu",
    options: str = "",
    *,
    means_host: bool = False,
    dot_products_from: int | None = None,
) -> TargetKind:
    """Declare a kind of target. `keys` and `options` are texts of words, such as
    "mcpu:str max_num_threads:int=1024"; `TargetKind` describes the rest."""
    kind = TargetKind(
        name, device_type, tuple(keys.split()), options, means_host, dot_products_from
    )
    return KINDS.register(name, kind)


def register_kind_attr(
    kind_name: str, attr_name: str, value: Any = None, override: bool = False
) -> Any:
    """Give a kind of target an attribute, which `Target.get_kind_attr` returns; without a value,
    return a decorator that does. ``RelayToTIR`` is a pass that lowers the kind's own parts of
    Relay programs, ``TIRToRuntime`` makes their code. Raises TargetError for one that is there.
    """
    kind = target_kind(kind_name)
    if attr_name in kind.attrs and not override:
        raise TargetError(
            f"target kind '{kind_name}' has the attribute '{attr_name}' already",
            notes=("replace it with override=True",),
        )

    def register(given: Any) -> Any:
        kind.attrs[attr_name] = given
        return given

    return register if value is None else register(value)


declare_kind(
    "llvm", CPU, "cpu",
    "mattr:strings mcpu:str mtriple:str mfloat-abi:str mabi:str num-cores:int fast-math:bool"
    " fast-math-nnan:bool fast-math-ninf:bool fast-math-nsz:bool fast-math-arcp:bool"
    " fast-math-contract:bool fast-math-reassoc:bool flush-subnormals:bool opt-level:int"
    " cl-opt:strings jit:str vector-width:int machine:strings",
    means_host=True,
)  # fmt: skip
declare_kind(
    "c", CPU, "cpu",
    "mcpu:str march:str workspace-byte-alignment:int constants-byte-alignment:int",
)  # fmt: skip
declare_kind(
    "cuda", CUDA, "cuda gpu",
    "mcpu:str arch:str max_shared_memory_per_block:int max_threads_per_block:int"
    " thread_warp_size:int=32 registers_per_block:int l2_cache_size_bytes:int"
    " max_num_threads:int=1024 fast-math:bool",
    dot_products_from=61,
)  # fmt: skip
declare_kind(
    "nvptx", CUDA, "cuda gpu",
    "mcpu:str mtriple:str max_num_threads:int=1024 thread_warp_size:int=32",
)  # fmt: skip
declare_kind(
    "rocm", ROCM, "rocm gpu",
    "mcpu:str mtriple:str mattr:strings max_num_threads:int=256 max_threads_per_block:int=256"
    " max_shared_memory_per_block:int=65536 thread_warp_size:int=64",
)  # fmt: skip
declare_kind(
    "opencl", OPENCL, "opencl gpu",
    "max_threads_per_block:int=256 max_shared_memory_per_block:int=16384 max_num_threads:int=256"
    " thread_warp_size:int=1 texture_spatial_limit:int=16384 max_function_args:int=128"
    " fast-math:bool",
)  # fmt: skip
declare_kind(
    "metal", METAL, "metal gpu",
    "max_num_threads:int=256 max_threads_per_block:int=256 max_shared_memory_per_block:int=32768"
    " thread_warp_size:int=16 max_function_args:int=31",
)  # fmt: skip
declare_kind(
    "vulkan", VULKAN, "vulkan gpu",
    "mattr:strings supports_float16:bool supports_float32:bool=true supports_float64:bool"
    " supports_int8:bool supports_int16:bool supports_int32:bool=true supports_int64:bool"
    " supports_8bit_buffer:bool supports_16bit_buffer:bool"
    " supports_storage_buffer_storage_class:bool supports_push_descriptor:bool"
    " supports_dedicated_allocation:bool supports_integer_dot_product:bool"
    " supports_cooperative_matrix:bool supported_subgroup_operations:int"
    " max_num_threads:int=256 max_threads_per_block:int=256 thread_warp_size:int=1"
    " max_block_size_x:int max_block_size_y:int max_block_size_z:int max_push_constants_size:int"
    " max_uniform_buffer_range:int max_storage_buffer_range:int"
    " max_per_stage_descriptor_storage_buffer:int max_shared_memory_per_block:int device_type:str"
    " device_name:str driver_name:str driver_version:int vulkan_api_version:int"
    " max_spirv_version:int",
)  # fmt: skip
declare_kind("webgpu", WEBGPU, "webgpu gpu", "max_num_threads:int=256")
declare_kind("sdaccel", OPENCL, "sdaccel hls")
declare_kind("aocl", AOCL, "aocl hls")
declare_kind("aocl_sw_emu", AOCL, "aocl hls")
declare_kind(
    "hexagon", HEXAGON, "hexagon cpu",
    "mattr:strings mcpu:str mtriple:str llvm-options:strings num-cores:int vtcm-capacity:int",
)  # fmt: skip
declare_kind("stackvm", CPU, "cpu")
declare_kind("ext_dev", EXT_DEV, "")
declare_kind("hybrid", CPU, "")
declare_kind("composite", CPU, "", "devices:targets")
declare_kind("test", CPU, "")
