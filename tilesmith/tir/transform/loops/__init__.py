"""Loops: taken apart, unrolled, vectorised, overlapped; what does not change in them goes out."""
