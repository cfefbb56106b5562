"""Compile the digits network, classify the held-out digits, and compare with onnxruntime.

    make demo

Ends with exit code 1 when the accuracies differ or an output is off by more than 1e-5.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from data import split
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

import tilesmith
from tilesmith.inspect.timing import format_seconds, interleave, ratio

MODEL = Path(__file__).with_name("digits.onnx")
PICTURE = Path(__file__).with_name("predictions.png")
TOLERANCE = 1e-5
SCALE, COLUMNS, ROWS, CAPTION, TITLE = 9, 8, 5, 26, 34
GREEN, RED = (30, 130, 60), (200, 30, 30)


def compile_for(batch: int) -> tuple[tilesmith.runtime.Executable, float]:
    """The network for `batch` images at once, and the seconds that compiling it took."""
    start = time.perf_counter()
    shapes = {"image": (batch, 1, 8, 8)}
    executable = tilesmith.compile(MODEL, target="llvm", input_shapes=shapes)
    return executable, time.perf_counter() - start


def as_numpy(result: object) -> np.ndarray:
    """The only output of the network as an array."""
    if isinstance(result, list | tuple):
        (result,) = result
    return result.numpy()


def draw(images: np.ndarray, guesses: np.ndarray, labels: np.ndarray, path: Path) -> None:
    """A sheet of digits, under each the guess and the truth: wrong ones first, then right ones."""
    wrong = np.flatnonzero(guesses != labels)
    right = np.flatnonzero(guesses == labels)
    chosen = np.concatenate([wrong, right])[: COLUMNS * ROWS]
    width, height = 8 * SCALE + 8, 8 * SCALE + 8 + CAPTION
    sheet = Image.new("RGB", (COLUMNS * width, TITLE + ROWS * height), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((4, 4), f"{len(right)} of {len(labels)} held-out digits are guessed right", "black")
    shown = f"shown: all {len(wrong)} wrong ones (red), then right ones (green)"
    pen.text((4, 18), shown, "black")
    for position, index in enumerate(chosen):
        x, y = position % COLUMNS * width + 4, TITLE + position // COLUMNS * height + 4
        pixels = (255 * (1 - images[index, 0])).astype("uint8")
        digit = Image.fromarray(pixels).resize((8 * SCALE, 8 * SCALE), Image.Resampling.NEAREST)
        sheet.paste(digit.convert("RGB"), (x, y))
        is_right = guesses[index] == labels[index]
        text = f"guess: {guesses[index]}\ntruth: {labels[index]}"
        pen.text((x + 4, y + 8 * SCALE), text, fill=GREEN if is_right else RED)
    sheet.save(path)


def latency_table(console: Console, session: onnxruntime.InferenceSession, threads: int) -> None:
    """Latency for one image and for 64, both programs in turns."""
    table = Table(title=f"latency, {threads} thread{'s' if threads > 1 else ''}, in turns")
    for column in ("images", "program", "median", "10 % to 90 %", "onnxruntime / this"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for batch in (1, 64):
        executable, _ = compile_for(batch)
        images = np.random.default_rng(0).random((batch, 1, 8, 8), dtype="float32")
        feed = {"image": images}
        timings = interleave({
            "tilesmith": lambda run=executable, x=images: run(x),
            "onnxruntime": lambda x=feed: session.run(None, x),
        })  # fmt: skip
        for name, timing in timings.items():
            spread = f"{format_seconds(timing.low)} to {format_seconds(timing.high)}"
            factor = ratio(timings["onnxruntime"], timing)
            table.add_row(str(batch), name, format_seconds(timing.median), spread, f"{factor:.2f}")
    console.print(table)


def main() -> int:
    """Run the demo; 0 when both programs agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=tilesmith.num_threads())
    parser.add_argument("--picture", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    console = Console()
    _, images, _, labels = split()

    tilesmith.set_num_threads(arguments.threads)
    executable, seconds = compile_for(len(images))
    console.print(f"compiled {MODEL.name} for {len(images)} images in {seconds:.2f} s")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])

    ours = as_numpy(executable(images))
    (theirs,) = session.run(None, {"image": images})
    table = Table(title=f"{len(images)} held-out digits")
    for column in ("program", "right", "accuracy"):
        table.add_column(column, justify="left" if column == "program" else "right")
    right = {}
    for name, outputs in (("tilesmith", ours), ("onnxruntime", theirs)):
        right[name] = int((outputs.argmax(1) == labels).sum())
        table.add_row(name, str(right[name]), f"{right[name] / len(labels):.2%}")
    console.print(table)
    difference = float(np.abs(ours - theirs).max())
    console.print(f"largest difference between their outputs: {difference:.1e}")

    latency_table(console, session, arguments.threads)
    draw(images, ours.argmax(1), labels, arguments.picture)
    console.print(f"picture: {arguments.picture}")

    # `not <=` so that a NaN counts as a disagreement.
    if not difference <= TOLERANCE or right["tilesmith"] != right["onnxruntime"]:
        console.print(f"[red]the two programs disagree (allowed: {TOLERANCE:g})[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
