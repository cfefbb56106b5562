"""Pooling: windows, whole images, windows that follow from the size of the result."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, optional, paddings, repeated, text
from tilesmith.relay.op.view import define, name_or_empty

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_KINDS = {"max": "greatest element", "avg": "mean"}


def _window(dims: int, kind: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "pool_size": repeated(dims, least=1),
        "strides": repeated(dims, least=1),
        "dilation": repeated(dims, least=1),
        "padding": paddings(dims),
        "layout": text(_LAYOUTS[dims]),
        "out_layout": name_or_empty(),
        "ceil_mode": boolean(False),
    }
    return fields if kind == "max" else {**fields, "count_include_pad": boolean(False)}


def _attributes(attrs: Any) -> dict[str, Any]:
    return {**dict(attrs.items()), "out_layout": attrs.out_layout or None}


def _define_pooling(dims: int, kind: str) -> None:
    windows = getattr(relax.nn, f"{kind}_pool{dims}d")
    adaptive = getattr(relax.nn, f"adaptive_{kind}_pool{dims}d")

    def pool(attrs: Any, data: Any) -> Any:
        return windows(data, **_attributes(attrs))

    def adapt(attrs: Any, data: Any) -> Any:
        return adaptive(data, **_attributes(attrs))

    def whole(attrs: Any, data: Any) -> Any:
        return adaptive(data, output_size=(1,) * dims, **_attributes(attrs))

    layouts = {"layout": text(_LAYOUTS[dims]), "out_layout": name_or_empty()}
    define(
        f"nn.{kind}_pool{dims}d",
        "data",
        pool,
        level=2,
        schema=Schema(**_window(dims, kind)),
        record=windows.op.spec,
    )
    define(
        f"nn.adaptive_{kind}_pool{dims}d",
        "data",
        adapt,
        level=10,
        schema=Schema(output_size=optional(repeated(dims)), **layouts),
        record=adaptive.op.spec,
    )
    define(
        f"nn.global_{kind}_pool{dims}d",
        "data",
        whole,
        level=2,
        schema=Schema(layout=text(_LAYOUTS[dims]), out_layout=name_or_empty()),
        description=f"The {_KINDS[kind]} of each channel.",
    )


for _dims in (1, 2, 3):
    for _kind in _KINDS:
        _define_pooling(_dims, _kind)


def _define_gradient(kind: str) -> None:
    record = getattr(relax.grad, f"{kind}_pool2d_backward")
    fields = _window(2, kind)
    del fields["dilation"]
    define(
        f"nn.{kind}_pool2d_grad",
        "out_grad data",
        lambda attrs, grad, data: record(grad, data, **_attributes(attrs)),
        level=2,
        schema=Schema(**fields),
        description=f"The gradient of ``{kind}_pool2d``.",
    )


for _kind in _KINDS:
    _define_gradient(_kind)
