"""Passes over data types: replace those that a target lacks, and narrow index arithmetic."""
