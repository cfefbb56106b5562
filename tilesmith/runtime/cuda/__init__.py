"""Devices of kind "cuda": memory, streams, events and code on NVIDIA GPUs, through the driver.

`driver` reaches libcuda, `memory` allocates and copies, `streams` has queues and clocks, `api` is
what the runtime asks (`DEVICE_APIS["cuda"]`). Importing this package loads no driver.
"""
