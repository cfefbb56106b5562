"""A module that maps a name to a number."""

from tilesmith import IRModule

IRModule({"main": 3})
