"""Turns on and off that importers write where in a model each call comes from."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.transform import PassContext
from tilesmith.relax.frontend.options import FILL_SPAN

__all__ = ["disable_span_filling", "enable_span_filling"]


class _SpanFilling:
    """A context whose importers write spans, or do not; other settings stay as they are."""

    def __init__(self, is_on: bool) -> None:
        outer = PassContext.current()
        self._context = PassContext(
            opt_level=outer.opt_level,
            required_pass=outer.required_pass,
            disabled_pass=outer.disabled_pass,
            instruments=outer.instruments,
            config={**outer.config, FILL_SPAN: is_on},
        )

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


class enable_span_filling(_SpanFilling):
    """Let importers write spans inside ``with enable_span_filling():``, as they do by default."""

    def __init__(self) -> None:
        super().__init__(True)


class disable_span_filling(_SpanFilling):
    """Let importers write no spans inside ``with disable_span_filling():``."""

    def __init__(self) -> None:
        super().__init__(False)
