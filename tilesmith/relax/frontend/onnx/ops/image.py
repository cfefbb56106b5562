"""Converters still to come."""
