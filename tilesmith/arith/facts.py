"""Stores the facts that an analyzer knows, in layers.

Facts are about variables (their values, bounds and residues), atoms and sums (bounds, residues,
inequalities), and conditions (which of them hold). Whatever follows from facts is kept in `Caches`:
when facts change, they start empty.

A constraint scope opens a *layer*: facts are copied, caches start empty, and closing the layer
brings the old ones back, so that nothing learnt inside survives.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.arith.forms import Atom, Product, Split, Sum, direction
from tilesmith.arith.intervals import Interval, intersect, scaled_down
from tilesmith.arith.modular_set import Residue, intersect_residue, reduced
from tilesmith.ir import PrimExpr, Var

__all__ = ["Caches", "Facts"]


class Caches:
    """Caches results derived from the facts; each dictionary belongs to one part of the engine."""

    __slots__ = ("bounds", "divisions", "forms", "rays", "residues", "rewritten")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Replaces all dictionaries by new ones; the old objects are not changed."""
        self.forms: dict[int, tuple[PrimExpr, Sum]] = {}
        self.rewritten: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        self.bounds: dict[Atom, Interval] = {}
        self.residues: dict[Atom, Residue] = {}
        self.divisions: dict[tuple[int, int], tuple[tuple[Sum, Sum], Sum]] = {}  # and of what
        self.rays: dict[int, tuple[PrimExpr, Any]] = {}

    def entries(self) -> tuple[Any, ...]:
        """Returns the dictionaries, for `restore`."""
        return (
            self.forms, self.rewritten, self.bounds, self.residues, self.divisions, self.rays,
        )  # fmt: skip

    def restore(self, entries: tuple[Any, ...]) -> None:
        """Reinstates the dictionaries that `entries` returned."""
        (
            self.forms, self.rewritten, self.bounds, self.residues, self.divisions, self.rays,
        ) = entries  # fmt: skip


class Facts:
    """Stores the facts, and caches of results derived from them."""

    __slots__ = (
        "atom_facts", "caches", "definitions", "extents", "inequalities", "literals",
        "modular_facts", "replacements", "sum_facts", "values", "var_bounds", "var_modular",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: dict[Var, Sum] = {}
        self.replacements: dict[Var, PrimExpr] = {}  # of variables that are not scalar integers
        self.var_bounds: dict[Var, Interval] = {}
        self.var_modular: dict[Var, Residue] = {}
        self.atom_facts: dict[Atom, Interval] = {}
        self.sum_facts: dict[object, Any] = {}  # bounds; under (Sum, ...) what it is not
        self.inequalities: dict[Atom, tuple[Sum, ...]] = {}
        self.modular_facts: dict[Atom, Residue] = {}
        self.literals: dict[int, bool] = {}  # number of a condition -> whether it holds
        self.definitions: dict[Var, PrimExpr] = {}  # of truth values bound by a let
        self.extents: dict[Atom, Atom] = {}  # variable -> symbolic extent of its range
        self.caches = Caches()

    # Layers

    def open_layer(self) -> tuple[Any, ...]:
        """Opens a layer; returns the state that ``close_layer`` needs."""
        saved = (
            self.values, self.replacements, self.var_bounds, self.var_modular, self.atom_facts,
            self.sum_facts, self.inequalities, self.modular_facts, self.literals, self.extents,
            self.definitions, self.caches.entries(),
        )  # fmt: skip
        self.values = self.values.copy()
        self.replacements = self.replacements.copy()
        self.var_bounds = self.var_bounds.copy()
        self.var_modular = self.var_modular.copy()
        self.atom_facts = self.atom_facts.copy()
        self.sum_facts = self.sum_facts.copy()
        self.inequalities = self.inequalities.copy()
        self.modular_facts = self.modular_facts.copy()
        self.literals = self.literals.copy()
        self.extents = self.extents.copy()
        self.definitions = self.definitions.copy()
        self.caches.clear()
        return saved

    def close_layer(self, saved: tuple[Any, ...]) -> None:
        """Drops all facts recorded since ``open_layer``."""
        (
            self.values, self.replacements, self.var_bounds, self.var_modular, self.atom_facts,
            self.sum_facts, self.inequalities, self.modular_facts, self.literals, self.extents,
            self.definitions, caches,
        ) = saved  # fmt: skip
        self.caches.restore(caches)

    def forget(self) -> None:
        """Empties the caches, because facts have changed."""
        self.caches.clear()

    # Facts about a variable

    def has_residues(self) -> bool:
        """Returns True if a remainder of any variable or sum is known."""
        return bool(self.var_modular or self.modular_facts)

    def drop(self, var: Var, atom: Atom) -> None:
        """Drops all facts about a variable, of which ``atom`` is the leaf."""
        self.forget()
        self.values.pop(var, None)
        self.var_bounds.pop(var, None)
        self.var_modular.pop(var, None)
        self.atom_facts.pop(atom, None)
        self.extents.pop(atom, None)
        for other, known in list(self.inequalities.items()):
            kept = tuple([fact for fact in known if atom not in fact.terms])
            if len(kept) != len(known):
                self.inequalities[other] = kept

    def learn_var_bounds(self, var: Var, interval: Interval, override: bool) -> None:
        """Adds bounds of a variable to the known ones, or replaces them."""
        self.forget()
        known = self.var_bounds.get(var)
        if known is not None and not override:
            interval = intersect(known, interval)
        if override:
            self.values.pop(var, None)
        self.var_bounds[var] = interval

    def learn_var_residue(self, var: Var, residue: Residue, override: bool) -> None:
        """Adds a residue of a variable, or replaces the known one."""
        self.forget()
        known = self.var_modular.get(var)
        if known is not None and not override:
            residue = intersect_residue(known, residue)
        self.var_modular[var] = residue

    # Facts about sums

    def exclude_zero(self, form: Sum) -> None:
        """Records that a sum is not zero."""
        key, scale = direction(form)
        if form.const % scale == 0:
            known = self.sum_facts.get((Sum, key), frozenset())
            self.sum_facts[Sum, key] = known | {-form.const // scale}

    def is_hole(self, form: Sum) -> bool:
        """Returns True if a condition has excluded zero as a value of the sum."""
        key, scale = direction(form)
        return form.const % scale == 0 and -form.const // scale in self.sum_facts.get(
            (Sum, key), ()
        )

    def learn_residue(self, form: Sum) -> None:
        """Records the residue of ``x`` from ``x % 4 == 1``."""
        if len(form.terms) != 1:
            return
        ((atom, coefficient),) = form.terms.items()
        if isinstance(atom, Split) and atom.lower == 1 and form.const % coefficient == 0:
            self.learn_remainder(atom.index, atom.upper, -form.const // coefficient)

    def learn_remainder(self, index: Sum, divisor: int, digit: int) -> None:
        """Records that ``index - digit`` is a multiple of the divisor."""
        if len(index.terms) != 1:
            return
        ((inner, scale),) = index.terms.items()
        if gcd(scale, divisor) == 1:
            base = (digit - index.const) * pow(scale, -1, divisor)
            known = self.modular_facts.get(inner)
            residue = reduced(divisor, base)
            if known is not None:
                residue = intersect_residue(known, residue)
            self.modular_facts[inner] = residue

    def narrow(self, form: Sum, interval: Interval) -> None:
        """Records that ``form`` lies in ``interval``."""
        low, high = interval[0] - form.const, interval[1] - form.const
        if len(form.terms) == 1:
            ((atom, scale),) = form.terms.items()
            low, high = scaled_down(low, high, scale)
            known = self.atom_facts.get(atom)
            fact = (low, high) if known is None else intersect(known, (low, high))
            self.atom_facts[atom] = fact
            return
        key, scale = direction(form)
        low, high = scaled_down(low, high, scale)
        known = self.sum_facts.get(key)
        self.sum_facts[key] = (low, high) if known is None else intersect(known, (low, high))

    def add_inequality(self, form: Sum) -> None:
        for atom in form.terms:
            parts = atom.factors if isinstance(atom, Product) else ()
            for part in (atom, *parts):
                known = self.inequalities.get(part, ())
                if form not in known:
                    self.inequalities[part] = (*known, form)
