"""Operators on images."""

from tilesmith.topi.image.resize import *  # noqa: F403
