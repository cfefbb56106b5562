"""Stands for modules of users' programs whose names are all refused (``refusals.py``)."""
