"""Schedules reductions along rows, and chains of them: softmax, normalisations."""
