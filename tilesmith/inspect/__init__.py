"""Measures and views compiled programs, and finds what is wrong with them."""
