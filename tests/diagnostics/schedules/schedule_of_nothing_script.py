"""A schedule without a program."""

from tilesmith import tir

tir.Schedule(None)
