"""Passes that simplify programs: simpler expressions, and no statements without effect."""
