"""Classic schedules of TOPI's programs, and the names under which users know them.

`cpu` and `gpu` schedule any program: they look at its graph, not at names. `table` says which of
the known names lead to them, which are operators, and which answer with an error that says what to
use instead; `published` makes the functions for the modules `topi.generic`, `topi.x86`, ….
"""
