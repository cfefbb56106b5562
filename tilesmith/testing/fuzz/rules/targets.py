"""Draws machines for the schedule rules: CPUs, and figures of their caches and units."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tilesmith.target import Target
from tilesmith.target.features import (
    architecture,
    architecture_of_triple,
    target_features,
)
from tilesmith.target.host import host_architecture, host_cpu
from tilesmith.target.machine import machine_model

__all__ = ["draw_target", "runs_here", "simpler_targets"]

_TARGETS = (
    (6, ""), (3, " -mcpu=znver5"), (3, " -mcpu=skylake-avx512"), (2, " -mcpu=cascadelake"),
    (3, " -mcpu=haswell"), (1, " -mcpu=sandybridge"), (3, " -mcpu=x86-64"),
    (1, " -mcpu=sapphirerapids"), (1, " -mtriple=aarch64-linux-gnu"),
    (1, " -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm,+bf16"),
    (1, " -mtriple=aarch64-linux-gnu -mcpu=cortex-a53"),
    (0.5, " -mtriple=armv7a-linux-gnueabihf -mattr=+neon"),
)  # fmt: skip
"""How often a CPU is drawn, and its options."""

_FIGURES = {
    "l1_bytes": (1024, 4096, 16384), "l2_bytes": (4096, 16384, 65536),
    "l3_bytes": (0, 16384, 262144), "l1_ways": (1, 2, 4), "line_bytes": (32, 64, 128),
    "vector_registers": (8, 16, 32),
    "fma_latency": (1, 3, 8), "fma_per_cycle": (1, 4), "loads_per_cycle": (1, 3),
    "front_end_width": (1, 8), "reduction_steps": (1, 2, 3, 8), "unaligned_lines": (0.5, 1, 2),
    "l2_bandwidth": (1, 100), "l3_bandwidth": (1, 100),
    "memory_bandwidth": (0.5, 50), "fork_cycles": (1, 10000),
}  # fmt: skip
"""Figures with which rules choose other tiles for small programs."""


def draw_target(rng: random.Random) -> str:
    """Return the text of a random target."""
    options = rng.choices([text for _, text in _TARGETS], [weight for weight, _ in _TARGETS])[0]
    if architecture_of_triple(host_architecture()) != "x86" and "-mtriple" not in options:
        options = ""
    text = f"llvm{options} -num-cores={rng.choice([1, 2, 2, 2, 3, 8])}"
    if rng.random() < 0.1:
        text += f" -vector-width={rng.choice([128, 256])}"
    figures = []
    if rng.random() < 0.6:  # loops of little work run in parallel
        figures += ["fewest_parallel_cycles:1", f"fork_cycles:{rng.choice([1, 100])}"]
    if rng.random() < 0.6:
        names = rng.sample(sorted(set(_FIGURES) - {"fork_cycles"}), rng.choice([1, 2, 4, 8]))
        figures += [f"{name}:{rng.choice(_FIGURES[name])}" for name in names]
    return f"{text} -machine={','.join(figures)}" if figures else text


def simpler_targets(text: str) -> Iterator[str]:
    """Yield the target without one of its options or figures."""
    words = text.split()
    for number, word in enumerate(words[1:], 1):
        rest = [*words[:number], *words[number + 1 :]]
        yield " ".join(rest)
        name, _, figures = word.partition("=")
        if name == "-machine" and "," in figures:
            for one in figures.split(","):
                kept = [figure for figure in figures.split(",") if figure != one]
                yield " ".join([*words[:number], f"{name}={','.join(kept)}", *words[number + 1 :]])
    if "-num-cores" in text and "-num-cores=1" not in text:
        yield " ".join(["-num-cores=1" if one.startswith("-num-c") else one for one in words])


def runs_here(target: Target) -> bool:
    """Return whether this machine's CPU has all that code for a target uses."""
    machine_model(target)  # says what is wrong with the target before anything is compiled
    family = architecture_of_triple(host_architecture())
    if architecture(target) != family:
        return False
    wanted = target_features(target)
    if family == "x86":  # other features are about the system, or about speed
        wanted = frozenset(name for name in wanted if name.startswith(_INSTRUCTIONS))
    return wanted <= host_cpu().features


_INSTRUCTIONS = ("avx", "sse", "fma", "f16c", "bmi", "amx", "lzcnt", "popcnt", "gfni", "vaes")
"""How the names of x86 features begin whose instructions code may contain."""
