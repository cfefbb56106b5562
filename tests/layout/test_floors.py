"""Imports go down only: each package, with all its modules, is imported in a fresh process."""

import configparser
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tilesmith

ROOT = Path(tilesmith.__file__).parent

FLOORS = {
    "compat": 18,
    "cli": 17,
    "testing": 16,
    "inspect": 16,
    "micro": 15,
    "vta": 15,
    "autotvm": 14,
    "meta_schedule": 14,
    "driver": 13,
    "relay": 12,
    "relax": 11,
    "topi": 10,
    "schedule_rules": 9,
    "lowering": 8,
    "codegen": 7,
    "te": 7,
    "script": 7,
    "tir": 6,
    "arith": 5,
    "target": 5,
    "ir": 4,
    "contrib": 3,
    "rpc": 3,
    "error": 3,
    "runtime": 2,
    "support": 1,
}
PRESENT = sorted(
    [path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    + [path.stem for path in ROOT.glob("*.py") if not path.stem.startswith("__")]
)

PROGRAM = """
import importlib, json, pkgutil, sys
package = importlib.import_module("tilesmith." + sys.argv[1])
for found in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(json.dumps(sorted({m.split(".")[1] for m in sys.modules if m.startswith("tilesmith.")})))
"""


def test_every_package_has_a_floor():
    assert set(PRESENT) <= set(FLOORS)


@pytest.mark.parametrize("package", PRESENT)
def test_no_package_drags_in_a_higher_floor(package):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, package], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    too_high = [other for other in loaded if other != package and FLOORS[other] >= FLOORS[package]]
    assert too_high == [], f"{package} (floor {FLOORS[package]}) imports {too_high}"


@pytest.mark.parametrize("package", ["relax", "tir"])
def test_the_order_inside_a_package_names_all_its_files(package):
    """`lint-imports` holds the order; a file that it does not name would be free to import all."""
    settings = configparser.ConfigParser()
    settings.read(ROOT.parent / ".importlinter")
    layers = settings[f"importlinter:contract:{package}"]["layers"]
    named = {word.strip("()") for word in layers.split() if word != ":"}
    folder = ROOT / package
    found = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    found += [path.name for path in folder.iterdir() if (path / "__init__.py").exists()]
    missing = [one for one in found if f"tilesmith.{package}.{one}" not in named]
    assert not missing, f"tell .importlinter where in {package} these belong: {missing}"
