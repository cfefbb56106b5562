"""The errors of tvmc: the command prints them on one line and ends with the code 1."""

from __future__ import annotations

from tilesmith.support.errors import TilesmithError


class TVMCException(TilesmithError):
    """What tvmc was asked for cannot be done."""


class TVMCImportError(TVMCException):
    """A package that is needed to read a model is not installed."""
