"""Writes `docs/onnx_operators.md`: which operators of ONNX the importer knows.

    python tools/onnx_operators.py

The list of all operators comes from the installed package `onnx`, ours from the importer's table.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from tilesmith.relax.frontend.onnx import supported_operators
from tilesmith.relax.frontend.onnx.functions import has_definition

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "onnx_operators.md"
WORDS = ("yes", "by its definition in ONNX", "no")


def newest_versions() -> dict[str, int]:
    """Return each operator of ONNX itself with the opset that changed it last."""
    found: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name] = max(found.get(schema.name, 0), schema.since_version)
    return dict(sorted(found.items()))


def _how(name: str, version: int, ours: tuple[str, ...]) -> str:
    """Return how an operator imports, one of ``WORDS``."""
    if name in ours:
        return WORDS[0]
    return WORDS[1] if has_definition("", name, version) else WORDS[2]


def table() -> str:
    """Return the text of the file."""
    ours = supported_operators()
    operators = newest_versions()
    known = {name: _how(name, version, ours[""]) for name, version in operators.items()}
    count = sum(word != "no" for word in known.values())
    lines = [
        "# Operators of ONNX",
        "",
        f"Written by `tools/onnx_operators.py` from onnx {onnx.__version__}.",
        "",
        f"{count} of {len(known)} operators import. Such an operator may still be",
        "refused, with its name, for a form that is not served (a data type, a size that is known",
        "only at run time). Those that do not compute with texts, or decode files. How ONNX's own",
        "tests of backends fare is in [coverage/onnx_backend.md](coverage/onnx_backend.md).",
        "",
        "| operator | last changed in opset | imports |",
        "|---|---|---|",
        *[f"| {name} | {version} | {known[name]} |" for name, version in operators.items()],
    ]
    for domain, names in sorted(ours.items()):
        if domain:
            lines += ["", f"Of the domain `{domain}`: {', '.join(sorted(names))}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(table(), encoding="utf-8")
    print(OUTPUT)
