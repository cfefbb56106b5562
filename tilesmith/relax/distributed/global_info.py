"""Meshes of workers."""

from tilesmith.relax.sharding import DeviceMesh, device_mesh

__all__ = ["DeviceMesh", "device_mesh"]
