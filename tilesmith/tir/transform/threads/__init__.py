"""Passes over the threads of an accelerator: thread axes, reductions, barriers, copies."""
