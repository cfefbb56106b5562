"""Passes over loops: partition, unroll, vectorise and pipeline them, and hoist invariants."""
