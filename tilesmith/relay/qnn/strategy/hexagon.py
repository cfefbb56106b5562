"""Strategies for Hexagon: there are none of its own, those of any target (`generic`) serve."""

__all__: list[str] = []
