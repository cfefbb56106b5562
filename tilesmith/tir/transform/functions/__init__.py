"""Passes over whole functions: calling convention, split of host and device, calls of the
runtime."""
