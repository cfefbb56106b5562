"""Finds the buffers of a program whose memory is planned."""

from tilesmith.tir.usmp.analysis.analysis import extract_buffer_info

__all__ = ["extract_buffer_info"]
