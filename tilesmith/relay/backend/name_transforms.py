"""``relay.backend.name_transforms``: names of generated C code.

prefix_generated_name(["Run", "model"])        # "TVMGen_Run_model"
to_c_function_style("TVMGen_Run_model")        # "TVMGenRunModel"
to_c_variable_style("TVMGen_Run_model")        # "tvmgen_run_model"
to_c_constant_style("TVMGen_Run_model")        # "TVMGEN_RUN_MODEL"
"""

from __future__ import annotations

from collections.abc import Iterable

from tilesmith.runtime.name_transforms import sanitize_name
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    "prefix_generated_name", "prefix_name", "sanitize_name", "to_c_constant_style",
    "to_c_function_style", "to_c_variable_style",
]  # fmt: skip

_PREFIX, _GENERATED = "TVM", "TVMGen"


def _checked(name: str, what: str) -> str:
    if not name:
        raise TypeMismatchError(f"the {what}'s name is empty")
    if not name.startswith(_PREFIX):
        raise TypeMismatchError(
            f"the {what}'s name '{name}' does not begin with '{_PREFIX}'",
            notes=("prefix_name or prefix_generated_name makes such a name",),
        )
    return name


def to_c_function_style(original_name: str) -> str:
    """Return a prefixed name as C functions are written: each word with a capital."""
    first, *words = _checked(original_name, "function").split("_")
    return first + "".join([word[:1].upper() + word[1:] for word in words])


def to_c_variable_style(original_name: str) -> str:
    """Return a prefixed name as C variables are written: small."""
    return _checked(original_name, "variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """Return a prefixed name as C constants are written: capitals."""
    return _checked(original_name, "constant").upper()


def _joined(names: str | Iterable[str], prefix: str) -> str:
    words = [names] if isinstance(names, str) else list(names)
    if not words or not all(words):
        raise TypeMismatchError("a name is empty", notes=("give one word or several",))
    return "_".join([prefix, *[sanitize_name(word) for word in words]])


def prefix_name(names: str | Iterable[str]) -> str:
    """Return a name of a word or several, with the prefix of what is written by hand."""
    return _joined(names, _PREFIX)


def prefix_generated_name(names: str | Iterable[str]) -> str:
    """Return a name of a word or several, with the prefix of what is generated."""
    return _joined(names, _GENERATED)
