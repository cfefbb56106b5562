"""Inputs of the program in a schedule: their values are there, nothing is read or computed."""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.arith import Analyzer, IntervalSet
from tilesmith.ir import Var
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import PlaceholderOp
from tilesmith.tir.stmt import Stmt, stmt_seq

__all__: list[str] = []


def _reads(op: PlaceholderOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    return {}


def _domains(op: PlaceholderOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    return {}


def _realize(stage: Stage, bounds: Bounds, body: Stmt, scope: str) -> Stmt:
    return body


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    return stmt_seq()


OPERATIONS.handles(PlaceholderOp)(OperationRules(_reads, _domains, _realize, _provide))
