"""Rewrites the body of one vectorized loop as vector code; ``VectorizeLoop`` finds the loops.

    Vectorizer(Lanes(var, low, 8, analyzer, freely), predicates).statement(body)

The parts, each using only those below it:

    statements, branches     rules of statements
    vectorizer               ``Vectorizer``: the state of one loop's rewriting
    expressions, accesses    rules of expressions; those of loads and stores
    values                   ``Values``: the vectors of expressions and variables
    masks, memory            which lanes take part; memory of which each lane has a copy
    lanes, rules             the lanes and their arithmetic; the tables of rules

A rule returns the vector code of a node, or raises NeedsLanes: then the statement around it runs
lane by lane in a serial loop.
"""

from tilesmith.tir.transform.loops.vectorizer import (
    branches,
    expressions,
    statements,
)
from tilesmith.tir.transform.loops.vectorizer.lanes import Lanes
from tilesmith.tir.transform.loops.vectorizer.vectorizer import Vectorizer

__all__ = ["Lanes", "Vectorizer"]
