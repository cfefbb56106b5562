"""Fuzzes what comes from outside: ONNX files, saved artifacts, arrays.

    summary = fuzz_models(Options(cases=1000, seed=1, output=Path("findings")))

``bases`` has small models of every family of operators; ``nodes``, ``attributes`` and ``contents``
change them (bytes of a file in the last one), ``artifacts`` changes compiled models, ``arrays``
makes arguments that do not fit. ``cases`` draws a case from a seed, ``actions`` carries it out,
``verdict`` says what came of it. ``graph`` draws graphs of operators, which ``torch_graph`` also
writes in torch. ``server`` runs every case in a process of its own with limits of time and memory;
``campaign`` sends it seeds, and ``finding`` keeps what failed as files. To add a way of changing
models, write one function with ``@mutation`` in the file of its level.
"""
