"""Less to do for the same result: simpler expressions, no idle statements."""
