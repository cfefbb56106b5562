"""Defines types of data: a name, parameters, and the constructors that make values of it.

List, t = GlobalTypeVar("List"), TypeVar("t")
nil = Constructor("Nil", [], List)
cons = Constructor("Cons", [t, List(t)], List)
module = IRModule({}, {List: TypeData(List, [t], [nil, cons])})
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.expr import RelaxExpr
from tilesmith.ir.node import child, data, defines
from tilesmith.ir.structural_plan import text_hash
from tilesmith.ir.types import GlobalTypeVar, Type, TypeVar
from tilesmith.support.errors import ConfigError
from tilesmith.support.lazy import resolve

__all__ = ["Constructor", "TypeData"]

_PLACES = 8  # bits of a tag that hold the place among the constructors of a type


class Constructor(RelaxExpr, key="ir.Constructor", slots=("_tag",)):
    """Makes a value of the type ``belong_to`` from values of the types ``inputs``."""

    dialect = "relay"

    name_hint: str = data()
    inputs: tuple[Type, ...] = child()
    belong_to: GlobalTypeVar = child()

    def _finish(self) -> None:
        self._tag = [-1]

    @property
    def tag(self) -> int:
        """The number that values carry at run time; -1 until a TypeData lists the constructor."""
        return self._tag[0]

    def __call__(self, *args: Any) -> Any:
        """Return a call that makes a value."""
        return resolve("tilesmith.relax.expr:Call")(self, args)

    def structural_key(self) -> tuple[str, str]:
        """Return what is compared where the constructor is used; its type says the rest."""
        return self.name_hint, self.belong_to.name_hint

    def number(self, place: int) -> None:
        """Set the tag: it follows from the name of the type and the place in the TypeData."""
        name = text_hash(self.belong_to.name_hint) & 0x7FFFFF
        self._tag[0] = name << _PLACES | place


class TypeData(Type, key="ir.TypeData"):
    """The definition of a type of data; its type variables are bound in the constructors."""

    header: GlobalTypeVar = child()
    type_vars: tuple[TypeVar, ...] = defines(scope="constructors")
    constructors: tuple[Constructor, ...] = child()

    def structural_key(self) -> tuple[Any, ...]:
        """Return what is compared: the constructors, with type variables by their place."""
        places = {id(one): GlobalTypeVar(str(at)) for at, one in enumerate(self.type_vars)}

        def numbered(type_: Any) -> Any:
            return places.get(id(type_)) or type_.map_children(numbered)

        made = [
            (one.name_hint, tuple([numbered(type_) for type_ in one.inputs]))
            for one in self.constructors
        ]
        return self.header, len(places), tuple(made)

    def _finish(self) -> None:
        if len(self.constructors) > 1 << _PLACES:
            raise ConfigError(
                f"the type '{self.header.name_hint}' has {len(self.constructors)} constructors: "
                f"{1 << _PLACES} are possible"
            )
        for place, constructor in enumerate(self.constructors):
            if constructor.belong_to != self.header:
                raise ConfigError(
                    f"'{constructor.name_hint}' makes a '{constructor.belong_to.name_hint}', "
                    f"not a '{self.header.name_hint}'",
                    notes=("a constructor is listed in the definition of its own type",),
                )
            constructor.number(place)
