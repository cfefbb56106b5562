"""Measures the convolutions on a CUDA device next to cuDNN (through torch), and writes JSON.

python examples/gpu_convolution/measure.py --json examples/gpu_convolution/results.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tilesmith as ts
from examples.gpu_convolution.block_order import (
    BEST,
    ORDERS,
    name_of,
    product,
)
from examples.gpu_convolution.convolution import (
    ITERATORS,
    SHAPES,
    TILINGS,
    Shape,
    schedule,
    tiling_of,
)


def arrays(shape: Shape) -> tuple[Any, Any]:
    """Return an image in NHWC and a filter in HWIO."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal(
        (shape.batch, shape.height, shape.width, shape.channels), dtype=np.float32
    )
    size = (shape.kernel, shape.kernel, shape.channels, shape.filters)
    return image, rng.standard_normal(size, dtype=np.float32)


def rival(shape: Shape, image: Any, weight: Any) -> tuple[float, Any]:
    """Return the time of cuDNN on channels-last data in full float32, and its result."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    last = torch.channels_last
    x = torch.from_numpy(image).cuda().permute(0, 3, 1, 2).contiguous(memory_format=last)
    w = torch.from_numpy(weight).cuda().permute(3, 2, 0, 1).contiguous(memory_format=last)

    def call() -> Any:
        return torch.nn.functional.conv2d(
            x, w, stride=shape.stride, padding=shape.padding, dilation=shape.dilation
        )

    result = call()
    return milliseconds(call), result.permute(0, 2, 3, 1).contiguous().cpu().numpy()


def ours(
    shape: Shape, iterator: str, tiling: Any, image: Any, weight: Any, wanted: Any
) -> dict[str, Any]:
    """Return time and error of one of our schedules."""
    device = ts.cuda(0)
    built = ts.build(schedule(shape, tiling, iterator).mod, target="cuda -arch=sm_90")
    size = (shape.batch, *shape.out, shape.filters)
    result = ts.nd.array(np.zeros(size, "float32"), device)
    args = [ts.nd.array(image, device), ts.nd.array(weight, device), result]
    built(*args)
    device.sync()
    error = float(np.abs(result.numpy() - wanted).max() / np.abs(wanted).max())
    for _ in range(3):
        built(*args)
    found = built.time_evaluator("main", device, number=20, repeat=5)(*args)
    return {"ms": min(found.results) * 1e3, "error": error}


def measure(with_all: bool, save: Any) -> dict[str, Any]:
    """Return times of all shapes, in milliseconds; ``save`` gets them after each shape."""
    report: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        image, weight = arrays(shape)
        theirs, wanted = rival(shape, image, weight)
        entry: dict[str, Any] = {"cudnn_ms": theirs, "gflop": shape.flops / 1e9, "ours": {}}
        for label, tiling in TILINGS.items():
            if not with_all and tiling != tiling_of(shape):
                continue
            for iterator in ITERATORS:
                found = tried(shape, iterator, tiling, image, weight, wanted)
                entry["ours"][f"{iterator}, {label}"] = found
                if "ms" in found:
                    found["share"] = theirs / found["ms"]
                print(f"{name:24} {iterator}, {label}: {found}; cuDNN {theirs:.4f} ms", flush=True)
        report[name] = entry
        save(report)
    return report


def tried(
    shape: Shape, iterator: str, tiling: Any, image: Any, weight: Any, wanted: Any
) -> dict[str, Any]:
    """Return time and error of a schedule, or why it failed: the others are measured still."""
    try:
        return ours(shape, iterator, tiling, image, weight, wanted)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:400]}


def orders() -> dict[str, Any]:
    """Return times of products whose blocks start in different orders, next to cuBLAS."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    device = ts.cuda(0)
    report: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    for rows, columns, depth in ((4096, 4096, 4096), (2048, 16384, 4096)):
        a = rng.standard_normal((rows, depth), dtype=np.float32)
        b = rng.standard_normal((depth, columns), dtype=np.float32)
        x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        wanted = (x @ y).cpu().numpy()
        args = [ts.nd.array(a, device), ts.nd.array(b, device),
                ts.nd.array(np.zeros((rows, columns), "float32"), device)]  # fmt: skip
        entry: dict[str, Any] = {"cublas_ms": milliseconds(lambda x=x, y=y: x @ y), "orders": {}}
        for order, bits in ORDERS:
            sch = product(rows, columns, depth, order, bits, BEST)
            built = ts.build(sch.mod, target="cuda -arch=sm_90")
            built(*args)
            device.sync()
            error = float(np.abs(args[2].numpy() - wanted).max() / np.abs(wanted).max())
            found = built.time_evaluator("main", device, number=10, repeat=3)(*args)
            ms = min(found.results) * 1e3
            entry["orders"][name_of(order, bits)] = {"ms": ms, "error": error}
            print(
                f"{rows}x{columns}x{depth} {name_of(order, bits):24} {ms:8.3f} ms, "
                f"error {error:.1e}",
                flush=True,
            )
        report[f"{rows}x{columns}x{depth}"] = entry
    return report


def milliseconds(call: Any) -> float:
    """Return the time of work that torch starts, by the device's clock."""
    import torch

    for _ in range(3):
        call()
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 10)
    return min(times)


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="", help="where the report goes")
    parser.add_argument("--all", action="store_true", help="all sizes of tiles, not the best alone")
    options = parser.parse_args()
    report: dict[str, Any] = {"device": ts.cuda(0).device_name}

    def save(part: str, found: dict[str, Any]) -> None:
        report[part] = found
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    measure(options.all, lambda found: save("shapes", found))
    save("orders", orders())


if __name__ == "__main__":
    main()
