"""Ground floor: errors, environment variables, registries, caches, progress bars, worker processes,
the linker.

Nothing here knows of tensors or of the IR. Import the modules by their own names; this file stays
empty because `import tilesmith` passes through it.
"""
