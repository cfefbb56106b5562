"""Draws programs that the static schedule rules recognise, and checks what the rules make of them.

``programs`` builds a program from its choices: a form (in ``products``, ``windows``,
``rows``, ``movements``) with sizes, dtypes, prologues and epilogues that a ``Maker`` draws.
``targets`` draws for which machine; ``checks`` runs a case. To add a form, write a function that
takes a ``Maker`` and returns tensors, and register it with ``form``.
"""
