"""Tensor intrinsics: what a hardware instruction computes, and how it is called."""

from __future__ import annotations

from tilesmith.ir import Node
from tilesmith.ir import data as data_field
from tilesmith.support.errors import TypeMismatchError, UnknownIntrinsicError, UnknownNameError
from tilesmith.support.registry import Registry
from tilesmith.tir.function import PrimFunc

__all__ = ["TensorIntrin"]

_INTRINSICS: Registry[TensorIntrin] = Registry(
    "tensor intrinsic",
    providers={
        "amx_": "tilesmith.schedule_rules.intrinsics.x86",
        "dot_": "tilesmith.schedule_rules.intrinsics.x86",
        "dp4a": "tilesmith.schedule_rules.intrinsics.dot_product_common",
        "wgmma_": "tilesmith.schedule_rules.intrinsics.cuda_wgmma",
        "wmma_": "tilesmith.schedule_rules.intrinsics.cuda",
        "": "tilesmith.schedule_rules.intrinsics.every",
    },
)


class TensorIntrin(Node, key="tir.TensorIntrin"):
    """A tensor intrinsic: ``desc`` describes the computation as a block over buffers, ``impl``
    implements it; their parameters correspond one to one.
    """

    desc: PrimFunc = data_field()
    impl: PrimFunc = data_field()

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        for what, function in (("description", desc), ("implementation", impl)):
            if not isinstance(function, PrimFunc):
                raise TypeMismatchError(
                    f"the {what} of a tensor intrinsic is a PrimFunc, got {function!r}"
                )
        if len(desc.params) != len(impl.params):
            raise TypeMismatchError(
                f"the description has {len(desc.params)} parameters, the implementation "
                f"{len(impl.params)}"
            )
        self.desc = desc
        self.impl = impl

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Make an intrinsic and register it under a name."""
        if not isinstance(name, str):
            raise TypeMismatchError(f"the name of a tensor intrinsic is a text, got {name!r}")
        return _INTRINSICS.register(name, TensorIntrin(desc, impl), override=override)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return the intrinsic of that name. An unknown one is an UnknownIntrinsicError, or None
        with ``allow_missing``.
        """
        try:
            return _INTRINSICS.get(name)
        except (ModuleNotFoundError, UnknownNameError) as error:
            if allow_missing:
                return None
            if isinstance(error, UnknownNameError):
                raise UnknownIntrinsicError(error.message, notes=error.notes) from None
            raise

    def registered_name(self) -> str | None:
        """Return the name under which this very intrinsic is registered, if it is."""
        for name, value in _INTRINSICS.items():
            if value is self:
                registered: str = name
                return registered
        return None
