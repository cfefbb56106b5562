"""Checks of a program between primitives, on by ``debug_mask``."""

from __future__ import annotations

from tilesmith.support.errors import InternalError
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule.state import FunctionState, ScheduleState

__all__ = ["verify_state"]


def verify_state(state: ScheduleState) -> None:
    """Each function taken up so far is well-formed, and its tables agree with it."""
    for variable, function_state in state._functions.items():
        function = function_state.function
        if isinstance(function, PrimFunc):
            verify_well_formed(function)
        _verify_tables(variable.name_hint, function_state)


def _verify_tables(name: str, state: FunctionState) -> None:
    fresh = FunctionState(state.function)
    now = {key: state.stmt_of.get(sref) for key, sref in state.sref_of.items()}
    then = {key: fresh.stmt_of[sref] for key, sref in fresh.sref_of.items()}
    if now.keys() != then.keys() or any(now[key] is not then[key] for key in then):
        raise InternalError(f"the schedule's tables of '{name}' do not agree with the function")
    for key, sref in fresh.sref_of.items():
        parent = fresh.parent_of[sref]
        own = state.parent_of[state.sref_of[key]]
        if (parent is None) != (own is None):
            raise InternalError(f"a parent in the schedule's tables of '{name}' is wrong")
        if parent is not None and fresh.stmt_of[parent] is not state.stmt_of[own]:
            raise InternalError(f"a parent in the schedule's tables of '{name}' is wrong")
