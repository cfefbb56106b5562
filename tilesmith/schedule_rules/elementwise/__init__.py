"""Schedules blocks without reductions: elementwise chains, permutations of axes."""
