"""Memory: layouts of buffers, their flat form, which share a place."""
