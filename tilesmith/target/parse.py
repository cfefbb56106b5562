"""Parses the forms of a target (text, JSON, dictionary, tag) into one canonical dictionary.

"llvm -device=arm_cpu -mattr=+neon"
  {"kind": "llvm", "keys": ("arm_cpu", "cpu"), "device": "arm_cpu", "mattr": ("+neon",)}
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.target.kind import (
    CPU,
    CUDA,
    HEXAGON,
    KINDS,
    METAL,
    OPENCL,
    ROCM,
    VULKAN,
    WEBGPU,
    TargetKind,
    target_kind,
)
from tilesmith.target.tag_table import TAGS

# Printed by the target itself, in this order, before its other attributes.
LEADING = ("kind", "tag", "keys", "host")


def config_from_text(text: str) -> dict[str, Any]:
    """Return the configuration that a text stands for; its options are checked later."""
    text = text.strip()
    if not text:
        raise TargetError(
            "an empty text is not a target", notes=("for this machine's CPU: 'llvm'",)
        )
    if text.startswith("{"):
        try:
            config = json.loads(text)
        except json.JSONDecodeError as error:
            raise TargetError(
                f"the target looks like JSON, but is not: {error.msg} at column {error.colno}"
            ) from None
        return config
    try:
        name, *words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target '{text}' cannot be read: {error}") from None
    if name not in KINDS and TAGS.get(name, None) is not None:
        config = {"tag": name}
        kind = target_kind(TAGS[name]["kind"])
    else:
        kind = target_kind(name) if "/" not in name else _unknown_tag(name)
        config = {"kind": name}
    return {**config, **_options_from_words(kind, words, text)}


_KIND_OF_DEVICE = {
    CPU: "llvm",
    CUDA: "cuda",
    OPENCL: "opencl",
    VULKAN: "vulkan",
    METAL: "metal",
    ROCM: "rocm",
    WEBGPU: "webgpu",
    HEXAGON: "hexagon",
}
_KIND_OF_NAME = {"cpu": "llvm", "gpu": "cuda", "cl": "opencl"}


def config_from_device(dev: Any) -> dict[str, Any]:
    """Return the configuration of the target for `dev`, a Device or a name such as `"cuda"`."""
    if isinstance(dev, str):
        name = dev.partition(":")[0]
        return config_from_text(_KIND_OF_NAME.get(name, name))
    kind = _KIND_OF_DEVICE.get(getattr(dev, "device_type", None))
    if kind is None:
        raise TargetError(f"no target is known for device {dev}")
    attributes: dict[str, Any] = {}
    if dev.device_type != CPU:
        attributes["from_device"] = int(getattr(dev, "device_id", 0))
    version = getattr(dev, "compute_version", None)
    if version and "arch" in target_kind(kind).options:
        attributes["arch"] = "sm_" + str(version).replace(".", "")
    return {"kind": kind, **attributes}


def _unknown_tag(name: str) -> TargetKind:
    import difflib

    near = difflib.get_close_matches(name, list(TAGS), n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else "see tilesmith.target.list_tags()"
    raise TargetError(f"unknown target tag '{name}'", notes=(advice,))


_RENAMED = {"target": "mtriple"}
"""Options of older programs → what they are called today."""
_REMOVED = {
    "system-lib": "code needs no option to be linked into a program: runtime.system_lib() finds it",
    "runtime": "one runtime serves Python, C and C++ programs: leave the option out",
    "link-params": "parameters are a part of the compiled model: leave the option out",
    "executor": "compiled models are run by runtime.relax_vm: leave the option out",
    "interface-api": "functions are called by the packed interface: leave the option out",
    "unpacked-api": "functions are called by the packed interface: leave the option out",
}
"""Options of older programs that have gone, each with what to do instead."""


def _as_of_today(name: str, kind: TargetKind) -> str:
    """Return the name of an option as it is spelled today; TargetError for those that have gone."""
    if name in kind.options:
        return name
    if name in _REMOVED:
        raise TargetError(f"targets have no option '-{name}' any more", notes=(_REMOVED[name],))
    renamed = _RENAMED.get(name)
    return renamed if renamed in kind.options else name


def _options_from_words(kind: TargetKind, words: list[str], text: str) -> dict[str, Any]:
    """Parse `-name=value`, `--name=value`, `-name value`, and `-flag` for true or false."""
    result: dict[str, Any] = {}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or word in ("-", "--"):
            raise TargetError(
                f"'{word}' in target '{text}' is not an option",
                notes=("options look so: -mcpu=name",),
            )
        name, has_value, value = word.lstrip("-").partition("=")
        name = _as_of_today(name, kind)
        option = kind.option(name)
        if not has_value:
            follows = words[position] if position < len(words) else ""
            if option.value_type == "bool" and (not follows or follows.startswith("-")):
                value = "1"
            elif follows and not follows.startswith("-"):
                value = follows
                position += 1
            else:
                raise TargetError(f"option '{word}' of target '{text}' has no value")
        if name in result:
            raise TargetError(f"option '-{name}' is given twice in target '{text}'")
        result[name] = option.parse(value, kind.name)
    return result


def canonical(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with its tag resolved, defaults and keys filled in, and every option
    checked.
    """
    config = {str(name): value for name, value in config.items() if value is not None}
    tag = config.pop("tag", "")
    if tag and "kind" not in config:  # beside a kind it is only a label
        if TAGS.get(tag, None) is None:
            _unknown_tag(tag)
        config = {**TAGS[tag], **config}
    if "kind" not in config:
        raise TargetError(
            "the description of a target lacks its 'kind'", notes=('such as {"kind": "llvm"}',)
        )
    name = config.pop("kind")
    kind = name if isinstance(name, TargetKind) else target_kind(str(name))
    host = config.pop("host", None)
    given = {
        option: kind.option(option).check(value, kind.name) for option, value in config.items()
    }
    given_keys = given.pop("keys", None)
    attributes = {**kind.defaults(), **given}
    result: dict[str, Any] = {"kind": kind.name}
    if tag:
        result["tag"] = tag
    result["keys"] = _keys(kind, given_keys, attributes)
    if host is not None:
        result["host"] = host
    for option in sorted(attributes):
        result[option] = attributes[option]
    return result


def _keys(
    kind: TargetKind, given: tuple[str, ...] | None, attributes: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the keys by which a strategy is chosen, the most specific first; ``given`` keys
    replace the kind's.
    """
    keys = list(given or ())
    if attributes.get("device"):
        keys.append(attributes["device"])
    if _is_arm(kind, attributes):
        keys += ["arm_cpu", "cpu"]
    return tuple(dict.fromkeys([*keys, *(kind.default_keys if given is None else ())]))


def _is_arm(kind: TargetKind, attributes: Mapping[str, Any]) -> bool:
    """True if code is for an Arm CPU, as far as the options say."""
    if kind.device_type != CPU:
        return False
    if "mtriple" not in kind.options:
        return attributes.get("mcpu", "").startswith("cortex-m")
    return attributes.get("mtriple", "").startswith(("arm", "aarch64", "thumb"))


def to_text(config: Mapping[str, Any]) -> str:
    """Return a text that parses back to `config` (which is canonical), without its host; of several
    targets together it is JSON.
    """
    if "devices" in config:
        return json.dumps({name: value for name, value in config.items() if name != "host"})
    words = [config["kind"]]
    if config["keys"] or target_kind(config["kind"]).default_keys:
        words.append("-keys=" + ",".join(config["keys"]))
    for name, value in config.items():
        if name in LEADING:
            continue
        if isinstance(value, tuple):
            value = ",".join(value)
        elif isinstance(value, bool):
            value = int(value)
        words.append(f"-{name}={shlex.quote(str(value))}")
    return " ".join(words)
