"""Types: what a target lacks is computed and stored otherwise; indices get narrow."""
