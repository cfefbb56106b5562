"""Converters by family; each module fills the table of ``registry``."""
