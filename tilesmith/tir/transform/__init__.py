"""Passes over tensor programs, under the names that users know."""

from tilesmith.tir.transform import options
from tilesmith.tir.transform.function_pass import PrimFuncPass, prim_func_pass
