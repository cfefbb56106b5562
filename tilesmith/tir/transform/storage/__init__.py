"""Passes over memory: layouts of buffers, flat indices, shared allocations."""
