"""Tensors that are spread over workers: meshes of devices, placements, and their struct info.

    mesh = DeviceMesh((2, 2), Range(0, 4))        four workers in two rows
    Placement.from_text("S[0], R")                axis 0 is divided among the rows, each of which
                                                  holds copies of its part

A placement has one entry for each axis of the mesh.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from tilesmith.ir import IntImm, Range, child
from tilesmith.ir import data as data_field
from tilesmith.ir.global_info import GlobalInfo
from tilesmith.ir.node import ComparedByStructure
from tilesmith.relax.base import StructInfo
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import ScriptError, ShapeError, TypeMismatchError

__all__ = [
    "DTensorStructInfo", "DeviceMesh", "Placement", "PlacementSpec", "PlacementSpecKind",
    "device_mesh",
]  # fmt: skip


class DeviceMesh(GlobalInfo, key="relax.distributed.DeviceMesh"):
    """Workers, by their numbers, in an array of a shape."""

    shape: tuple[int, ...] = data_field()
    device_ids: tuple[int, ...] = data_field()

    def __init__(self, shape: Iterable[int], device_ids: Any) -> None:
        if isinstance(device_ids, Range):
            low, extent = device_ids.min, device_ids.extent
            if not isinstance(low, IntImm) or not isinstance(extent, IntImm):
                raise TypeMismatchError(f"the workers of a mesh are numbers, got {device_ids}")
            device_ids = range(int(low.value), int(low.value + extent.value))
        self.shape = tuple([int(size) for size in shape])
        self.device_ids = tuple([int(one) for one in device_ids])
        count = 1
        for size in self.shape:
            count *= size
        if count != len(self.device_ids):
            raise ShapeError(
                f"a mesh of the shape {self.shape} has {count} workers, got "
                f"{len(self.device_ids)} numbers"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (self.shape, self.device_ids) == (other.shape, other.device_ids)

    def __hash__(self) -> int:
        return hash((self.shape, self.device_ids))


def device_mesh(shape: Iterable[int], device_ids: Any) -> DeviceMesh:
    """Make a mesh: workers (a Range, or their numbers) in an array of a shape."""
    return DeviceMesh(shape, device_ids)


class PlacementSpecKind(IntEnum):
    """What an axis of a mesh does with a tensor."""

    SHARDING = 0
    REPLICA = 1


class PlacementSpec(ComparedByStructure, key="relax.distributed.PlacementSpec"):
    """What one axis of a mesh does: divides an axis of the tensor, or holds copies."""

    axis: int = data_field()
    kind: PlacementSpecKind = data_field(convert=PlacementSpecKind)

    @staticmethod
    def sharding(axis: int) -> PlacementSpec:
        """Return the division of an axis of the tensor."""
        if axis < 0:
            raise ShapeError(f"an axis that is divided is counted from 0, got {axis}")
        return PlacementSpec(int(axis), PlacementSpecKind.SHARDING)

    @staticmethod
    def replica() -> PlacementSpec:
        """Return that of copies."""
        return PlacementSpec(-1, PlacementSpecKind.REPLICA)


_SPEC = re.compile(r"\s*(?:S\[(\d+)\]|(R))\s*")


class Placement(ComparedByStructure, key="relax.distributed.Placement"):
    """What each axis of a mesh does with a tensor."""

    dim_specs: tuple[PlacementSpec, ...] = data_field()

    def __init__(self, dim_specs: Iterable[PlacementSpec]) -> None:
        self.dim_specs = tuple(dim_specs)

    @staticmethod
    def from_text(text: str) -> Placement:
        """Read a placement as it is written: "S[0], R"."""
        found = []
        for part in text.split(","):
            matched = _SPEC.fullmatch(part)
            if matched is None:
                raise ScriptError(
                    f"'{text}' is not a placement",
                    notes=('it has S[axis] or R for each axis of the mesh: "S[0], R"',),
                )
            axis = matched[1]
            found.append(
                PlacementSpec.replica() if axis is None else PlacementSpec.sharding(int(axis))
            )
        return Placement(found)

    @staticmethod
    def of(axes: Iterable[int | None]) -> Placement:
        """Return the placement that divides these axes; None stands for copies."""
        return Placement(
            [PlacementSpec.replica() if a is None else PlacementSpec.sharding(a) for a in axes]
        )

    @property
    def axes(self) -> tuple[int | None, ...]:
        """The axis that each axis of the mesh divides, None for copies."""
        copies = PlacementSpecKind.REPLICA
        return tuple([None if one.kind == copies else one.axis for one in self.dim_specs])

    @property
    def text(self) -> str:
        """The placement as it is written."""
        return ", ".join(["R" if axis is None else f"S[{axis}]" for axis in self.axes])


class DTensorStructInfo(StructInfo, key="relax.DTensorStructInfo"):
    """A tensor that is spread over the workers of a mesh; ``tensor_sinfo`` describes the whole."""

    tensor_sinfo: TensorStructInfo = child()
    device_mesh: DeviceMesh = data_field()
    placement: Placement = data_field()

    def __init__(
        self, tensor_sinfo: TensorStructInfo, device_mesh: DeviceMesh, placement: Placement | str
    ) -> None:
        if isinstance(placement, str):
            placement = Placement.from_text(placement)
        if len(placement.dim_specs) != len(device_mesh.shape):
            raise ShapeError(
                f"the placement '{placement.text}' has {len(placement.dim_specs)} entries; the "
                f"mesh has {len(device_mesh.shape)} axes"
            )
        rank = tensor_sinfo.ndim
        for axis in placement.axes:
            if axis is not None and rank >= 0 and axis >= rank:
                raise ShapeError(f"a tensor of rank {rank} has no axis {axis} to divide")
        self.tensor_sinfo = tensor_sinfo
        self.device_mesh = device_mesh
        self.placement = placement

    @property
    def shape(self) -> Any:
        """The shape of the whole."""
        return self.tensor_sinfo.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.tensor_sinfo.dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return self.tensor_sinfo.ndim

    def local(self) -> TensorStructInfo:
        """Return what one worker holds. Raises ShapeError where a size cannot be divided."""
        info = self.tensor_sinfo
        if info.shape is None:
            raise ShapeError("the shape of a tensor that is divided has to be known")
        sizes = list(info.shape.values)  # type: ignore[attr-defined]
        for count, axis in zip(self.device_mesh.shape, self.placement.axes):
            if axis is None:
                continue
            size = sizes[axis]
            if not isinstance(size, IntImm):
                raise ShapeError(f"the size {size} of axis {axis} is not known, it is divided")
            if size.value % count:
                raise ShapeError(f"{count} workers cannot divide axis {axis} of size {size.value}")
            sizes[axis] = IntImm("int64", size.value // count)
        return TensorStructInfo(sizes, info.dtype, info.vdevice)
