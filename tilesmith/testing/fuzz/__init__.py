"""Fuzzes the compiler: random programs and schedules, each step compared with the interpreter.

    summary = fuzz(Options(seconds=60, seed=1, output=Path("findings")))

``generator`` draws programs (as recipes), ``schedules`` the arguments of primitives; ``checks``
runs a case; ``campaign`` runs cases in separate processes, ``shrink`` makes a failing case smaller
and ``replay`` saves it as a test. To draw a new kind of primitive, add a sampler to ``schedules``.
"""
