"""Ground floor: errors, registries, knobs, caches, progress, pipes to workers, the linker.

Nothing here knows of tensors or of the IR. Import the modules by their own names; this file stays
empty because `import tilesmith` passes through it.
"""
