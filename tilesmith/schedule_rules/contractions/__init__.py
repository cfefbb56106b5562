"""Schedules contractions: matrix products, convolutions and what is made of them."""
