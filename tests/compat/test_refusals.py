"""Names that have no meaning here say why, and what to do instead; pages list them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tilesmith.compat import tvm as alias
from tilesmith.compat.tvm.refusals import REFUSALS, refusal_of
from tilesmith.support.errors import UnsupportedError, UnsupportedModuleError

ROOT = Path(__file__).resolve().parents[2]
NAMES = [key for key in REFUSALS if ":" in key]
MODULES = [key for key in REFUSALS if ":" not in key]


@pytest.fixture(autouse=True, scope="module")
def installed():
    alias.install()
    yield
    alias.uninstall()


@pytest.mark.parametrize("key", NAMES)
def test_names_say_what_to_do_instead(key):
    module, _, path = key.partition(":")
    found = importlib.import_module(module)
    owner, _, method = path.partition(".")
    value = getattr(found, owner)
    if method:  # of a class that is there: any object will do
        value = getattr(value, method).__get__(object())
    with pytest.raises(UnsupportedError) as caught:
        value("an argument")
    assert path.split(".")[-1] in str(caught.value) or method
    assert caught.value.notes


@pytest.mark.parametrize("name", [*MODULES, "tvm.contrib.msc.core.utils"])
def test_imports_of_modules_say_why(name):
    refusal = refusal_of(name)
    for kind in (ImportError, ModuleNotFoundError, UnsupportedModuleError):
        with pytest.raises(kind) as caught:
            importlib.import_module(name)
        assert refusal.reason in str(caught.value) and refusal.advice in str(caught.value)


def test_questions_about_modules_are_answered():
    import tvm

    assert not hasattr(tvm.contrib, "msc") and hasattr(tvm.contrib, "cc")
    with pytest.raises(AttributeError, match="a project of its own"):
        tvm.contrib.msc
    with pytest.raises(ImportError, match="a project of its own"):
        from tvm.contrib import msc  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="No module named 'tvm.contrib.no_such'"):
        importlib.import_module("tvm.contrib.no_such")


def test_refused_names_stand_for_classes_as_well():
    from tvm.relax.frontend.nn.llm import kv_cache

    refused = kv_cache.FlashInferPagedKVCache
    with pytest.raises(UnsupportedError, match="FlashInferPagedKVCache.attention: FlashInfer is"):
        refused.attention()
    with pytest.raises(UnsupportedError, match="library of CUDA kernels"):

        class Derived(refused):
            pass

    assert "TIRPagedKVCache" in refused.__doc__ and "refused" in repr(refused)
    with pytest.raises(AttributeError):
        refused._private


def test_reasons_are_sentences():
    for refusal in REFUSALS.values():
        for text in (refusal.reason, refusal.advice):
            assert text and not text.endswith(".")


def test_the_pages_are_what_the_tool_writes():
    command = [sys.executable, str(ROOT / "tools" / "coverage_tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "module, name, message",
    [
        ("tvm.relax.transform", "RewriteCUDAGraph", "a graph of launches when it runs"),
        ("tvm.relax.transform.ipc_allreduce_rewrite", "IPCAllReduceRewrite", "share between GPUs"),
        ("tvm.relax.pipeline", "static_shape_tuning_pipeline", "tuning is not there yet"),
        ("tvm.relax.backend_tir.contrib", "cutlass_fcodegen", "its library"),
    ],
)
def test_passes_that_need_a_gpu(module, name, message):
    with pytest.raises(UnsupportedError, match=message):
        getattr(importlib.import_module(module), name)()
    with pytest.raises(ImportError, match="its library"):
        importlib.import_module("tvm.relax.backend.contrib.cublas")


def test_names_of_the_files_of_passes():
    from tvm.relax.transform import legalize_ops
    from tvm.relax.transform.attach_external_modules import AttachExternModules
    from tvm.relax.transform.fast_math import FastMathTransform
    from tvm.relax.transform.legalize_ops.qdq import clip_cast, is_const_scalar
    from tvm.relax.transform.remove_redundant_reshape import RemoveRedundantReshape
    from tvm.tir import IntImm, Var

    assert FastMathTransform().info.name == "FastMathTransform"
    assert hasattr(AttachExternModules, "transform_module")
    assert hasattr(RemoveRedundantReshape(), "transform_function")
    assert legalize_ops.inspect_op.TVMStructFieldKind(1) == 1 and legalize_ops.binary is not None
    assert is_const_scalar(IntImm("int32", 3)) and not is_const_scalar(Var("x", "int32"))
    assert clip_cast(IntImm("int32", 300), "int8").value == 127
    assert clip_cast(IntImm("int32", 3), "float32").dtype == "float32"
