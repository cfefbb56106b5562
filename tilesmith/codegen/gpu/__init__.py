"""Generates kernels for GPUs, and the functions on the host that launch them."""
