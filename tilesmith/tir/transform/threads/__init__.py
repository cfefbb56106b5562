"""Threads of an accelerator: their loops, common reductions, barriers, copies."""
