"""Defines the options of printing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.support.errors import ConfigError

__all__ = ["SPELLING", "PrinterConfig", "Spelling"]


@dataclass(slots=True)
class Spelling:
    """The name by which printed programs import the package; one setting for the whole process.

    Programs that know the package by another name (``tilesmith.compat``) change it.
    """

    package: str = "tilesmith"


SPELLING = Spelling()


@dataclass(kw_only=True, slots=True)
class PrinterConfig:
    """How a node is printed.

    ``name``: the name of a function that stands alone. ``show_meta``: write large constants in full
    instead of leaving their section out. ``ir_prefix``, ``tir_prefix``, ``relax_prefix``,
    ``module_alias``: the words for the dialects and for the module inside its functions.
    ``verbose_expr``: write definitions of the variables and buffers of an expression before it.
    ``syntax_sugar``: ``T.grid``, ``T.axis.remap``, buffers among the parameters, the implicit root
    block.
    ``obj_to_underline`` and ``obj_to_annotate`` (object → text): nodes to mark;
    ``num_context_lines`` then limits what is printed to so many lines around the marks (-1 and
    None: all). ``show_object_address`` adds ``id`` to names of variables.
    """

    name: str | None = None
    show_meta: bool = False
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int | None = None
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_struct_info: bool = True
    path_to_underline: Sequence[Any] | None = None
    path_to_annotate: Mapping[Any, str] | None = None
    obj_to_underline: Sequence[Any] = field(default=())
    obj_to_annotate: Mapping[Any, str] | None = None

    @staticmethod
    def of(options: Mapping[str, Any]) -> PrinterConfig:
        """Return the configuration with these options; an unknown option is an error."""
        known = PrinterConfig.__dataclass_fields__
        for name in options:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, n=1)
                advice = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(known)
                raise ConfigError(f"unknown option of printing '{name}'", notes=(advice,))
        config = PrinterConfig(**options)
        config.obj_to_underline = tuple(config.obj_to_underline or ())
        return config

    def changed_defaults(self) -> list[str]:
        """Return the options that a parser needs to read the literals of the text:
        ``int_dtype="int64"``.
        """
        names = ("int_dtype", "float_dtype", "buffer_dtype", "module_alias")
        fields = PrinterConfig.__dataclass_fields__
        changed = [name for name in names if getattr(self, name) != fields[name].default]
        return [f'{name}="{getattr(self, name)}"' for name in changed]

    @property
    def prefixes(self) -> dict[str, str]:
        """Return the word chosen for each dialect, by the dialect's own letter."""
        return {"I": self.ir_prefix, "T": self.tir_prefix, "R": self.relax_prefix}
