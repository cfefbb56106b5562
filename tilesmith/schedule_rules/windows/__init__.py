"""Schedules reductions over windows without sums over channels: depthwise convolutions, pooling."""
