"""Settings of the command line from a file, ``--config FILE``:

    {"targets": [{"kind": "llvm", "mcpu": "skylake"}],
     "executor": {"kind": "graph", "link-params": 1},
     "runtime": {"kind": "cpp"}}

A file is a path, or the name of one in the folder of settings that comes with the command. What the
command line itself says takes precedence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.target import Target

CONFIGS_JSON_DIR: Path | None = None
"""The folder of settings, once `get_configs_json_dir` has been asked."""

_FOLDER = Path(__file__).parent / "configs"


class ConfigsJsonNotFoundError(TVMCException):
    """There is no file of settings of that name."""


def get_configs_json_dir() -> str:
    """Return the folder of settings: ``TVM_CONFIGS_JSON_DIR``, or the one of this package."""
    global CONFIGS_JSON_DIR
    if CONFIGS_JSON_DIR is None:
        CONFIGS_JSON_DIR = Path(os.environ.get("TVM_CONFIGS_JSON_DIR") or _FOLDER)
    if not CONFIGS_JSON_DIR.is_dir():
        raise ConfigsJsonNotFoundError(f"there is no folder {CONFIGS_JSON_DIR}")
    return str(CONFIGS_JSON_DIR)


def find_json_file(name: str, path: str | os.PathLike[str]) -> str:
    """Return the path of a file ``name`` (``.json`` may be left out) in a folder or below it."""
    wanted = name if name.endswith(".json") else name + ".json"
    found = sorted(Path(path).rglob(wanted)) if Path(wanted).name == wanted else []
    if not found:
        raise ConfigsJsonNotFoundError(
            f"there are no settings '{name}' in {path}", notes=("give the path of a .json file",)
        )
    return str(found[0])


def read_and_convert_json_into_dict(config_args: Any) -> dict[str, Any]:
    """Return the settings that ``config_args.config`` names."""
    name = str(getattr(config_args, "config", config_args))
    path = name if os.path.isfile(name) else find_json_file(name, get_configs_json_dir())
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TVMCException(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(settings, dict):
        raise TVMCException(f"{path} holds a {type(settings).__name__}, not an object of JSON")
    return settings


def parse_target_from_json(
    one_target: Mapping[str, Any], command_line_list: list[dict[str, Any]]
) -> str:
    """Append the options of a target to the list of settings; return the target's name."""
    options = dict(one_target)
    name = options.pop("kind", None)
    if not isinstance(name, str):
        raise TVMCException('a target in a file of settings needs its "kind"')
    known = Target.list_kinds()
    for option, value in options.items():
        if isinstance(value, (list, tuple)):
            value = " ".join([str(one) for one in value])
        if name in known and option == "host":
            command_line_list.append({"target_host": value})
            continue
        command_line_list.append({f"target_{name}_{option}".replace("-", "_"): value})
    return name


def convert_config_json_to_cli(json_params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return settings as defaults of the command line's arguments."""
    found: list[dict[str, Any]] = []
    for key, value in json_params.items():
        if key == "targets":
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise TVMCException('"targets" of a file of settings is a list')
            names = [parse_target_from_json(one, found) for one in value]
            found.append({"target": ", ".join(names)})
        elif key in ("executor", "runtime"):
            options = dict(value) if isinstance(value, Mapping) else {"kind": value}
            kind = options.pop("kind", None)
            found.append({key: kind})
            found += [
                {f"{key}_{kind}_{option}".replace("-", "_"): one} for option, one in options.items()
            ]
        elif isinstance(value, Mapping):
            found += [{option.replace("-", "_"): one} for option, one in value.items()]
        else:
            found.append({key.replace("-", "_"): value})
    return found
