"""The proof machine: random programs and schedules, each step compared with the interpreter.

    summary = fuzz(Options(seconds=60, seed=1, output=Path("findings")))

``generator`` draws programs (as recipes), ``schedules`` the arguments of primitives; ``checks``
carries a case out; ``campaign`` runs cases in processes of their own, ``shrink`` makes what fails
smaller and ``replay`` saves it as a test. To let it draw a new kind of primitive, add a sampler to
``schedules``.
"""
