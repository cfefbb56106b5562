"""Reads the table of known names: ``names/*.txt``, one file for each module of TOPI.

A file has sections, the submodules in which users know the names, and a row for each name:

    [conv2d]
    schedule: schedule_conv2d_nchw(outs)
    compute nn.dense: dense_nopack(cfg, data, weight, bias=None, out_dtype=None)
    no dnnl: conv2d_nchw_dnnl(cfg, data, kernel, strides, padding, dilation, out_dtype)

The first words say what the name means here:

- ``schedule`` — the general schedule for the module's devices, of all that it is given
- ``existing`` — the loops of one elementwise stage of a given schedule
- ``compute``, ``compute nn.f``, ``compute nn.f(a, b=c)`` — the operator of this name, that of
  another one, with the arguments in another order
- ``helper file:f`` — a function of this package
- ``no reason`` — an error that says what to use instead (``reasons.py``)
"""

from __future__ import annotations

import ast
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path

from tilesmith.support.errors import InternalError

__all__ = ["CPU", "DEVICES", "GPU", "Row", "families", "rows_of"]

_TABLES = Path(__file__).with_name("names")

CPU, GPU, ANY = "cpu", "gpu", "any"

DEVICES = {
    "adreno": GPU, "arm_cpu": CPU, "bifrost": GPU, "cuda": GPU, "generic": ANY, "gpu": GPU,
    "hexagon": CPU, "hls": CPU, "intel_graphics": GPU, "mali": GPU, "rocm": GPU, "x86": CPU,
}  # fmt: skip
"""Module → whose general schedules its schedules are; ANY goes by the current target."""


@dataclass(frozen=True)
class Row:
    """A known name: where users find it, its parameters, and what it means here."""

    family: str
    module: str
    """The submodule, empty for the module itself."""
    name: str
    parameters: str
    kind: str
    """``schedule``, ``existing``, ``compute``, ``helper`` or ``no``."""
    meaning: str
    """The operator, the helper or the reason."""

    @property
    def path(self) -> str:
        """The name as users write it: x86.conv2d.schedule_conv2d_nchw."""
        return ".".join([part for part in (self.family, self.module, self.name) if part])

    @property
    def takes_configuration(self) -> bool:
        """True if the first parameter is AutoTVM's configuration."""
        first = self.parameters.partition(",")[0].strip()
        return first in ("cfg", "_cfg", "_")

    def signature(self) -> inspect.Signature:
        """Return the published signature."""
        return _signature(self.parameters)


def families() -> list[str]:
    """Return the modules of the table."""
    return list(DEVICES)


@functools.cache
def rows_of(family: str) -> tuple[Row, ...]:
    """Return the rows of one module, in the order of the file."""
    rows = []
    module = ""
    for line in (_TABLES / f"{family}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line:
            meaning, _, shown = line.partition(": ")
            name, _, parameters = shown.partition("(")
            kind, _, rest = meaning.partition(" ")
            rows.append(Row(family, module, name, parameters[:-1], kind, rest))
    return tuple(rows)


def _signature(parameters: str) -> inspect.Signature:
    """Return the signature that ``def f(parameters)`` has; defaults are literals."""
    function = ast.parse(f"def f({parameters}): ...").body[0]
    if not isinstance(function, ast.FunctionDef):
        raise InternalError(f"no parameters: {parameters}")
    given = function.args
    plain = given.posonlyargs + given.args
    shown = []
    missing = len(plain) - len(given.defaults)
    for number, argument in enumerate(plain):
        default = inspect.Parameter.empty
        if number >= missing:
            default = ast.literal_eval(given.defaults[number - missing])
        shown.append(
            inspect.Parameter(
                argument.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default
            )
        )
    if given.vararg is not None:
        shown.append(inspect.Parameter(given.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    if given.kwarg is not None:
        shown.append(inspect.Parameter(given.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(shown)
