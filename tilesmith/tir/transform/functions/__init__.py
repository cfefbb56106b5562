"""Functions as a whole: how they are called, what runs on host and device, calls of the runtime."""
