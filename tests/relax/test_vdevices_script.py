"""UpdateVDevice and RealizeVDevice."""

import numpy as np
import pytest

from tilesmith.ir import VDevice, structural_equal
from tilesmith.relax import analysis, interpreter, transform
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import ConfigError, TypeMismatchError


def assert_equal(got, wanted):
    assert structural_equal(got, wanted, True), f"{got.script()}\n\nwanted\n\n{wanted.script()}"


@I.ir_module
class Hints:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("cuda", 0)]})

    @R.function
    def main(
        x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.hint_on_device(a, I.vdevice("cuda", 0))
            c = R.multiply(b, z)
            d = R.hint_on_device(c, I.vdevice("llvm", 0))
            e = R.exp(d)
            R.output(e)
        return e


@I.ir_module
class Realized:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("cuda", 0)]})

    @R.function
    def main(
        x: R.Tensor((4,), "float32", "cuda:0"),
        y: R.Tensor((4,), "float32", "cuda:0"),
        z: R.Tensor((4,), "float32", "cuda:0"),
    ) -> R.Tensor((4,), "float32", "llvm:0"):
        with R.dataflow():
            a: R.Tensor((4,), "float32", "cuda:0") = R.add(x, y)
            c: R.Tensor((4,), "float32", "cuda:0") = R.multiply(a, z)
            d: R.Tensor((4,), "float32", "llvm:0") = R.to_vdevice(c, "llvm:0")
            e: R.Tensor((4,), "float32", "llvm:0") = R.exp(d)
            R.output(e)
        return e


def test_hints_become_devices_and_copies():
    changed = transform.RealizeVDevice()(Hints)
    print(changed.script())
    assert_equal(changed, Realized)
    analysis.assert_well_formed(changed)
    arrays = [np.arange(4, dtype="float32") / 8 + k for k in range(3)]
    want = interpreter.run(Hints, "main", *arrays)
    np.testing.assert_array_equal(interpreter.run(changed, "main", *arrays), want)


def test_realized_devices_stay():
    assert_equal(transform.RealizeVDevice()(Realized), Realized)


@I.ir_module
class Kernels:
    I.module_global_infos({"vdevice": [I.vdevice("cuda", 0)]})

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.call_dps_packed("double", (x,), R.Tensor((4,), "float32"))
            b = R.split(a, 2)
            c = R.concat((b[1], b[0]))
            d = R.hint_on_device(c, I.vdevice("cuda", 0))
            R.output(d)
        return d


def test_tuples_between_and_declared_results():
    changed = transform.RealizeVDevice()(Kernels)
    analysis.assert_well_formed(changed)
    bindings = {b.var.name_hint: b.var.struct_info for b in analysis.bindings_of(changed["main"])}
    assert bindings["c"].vdevice is not None
    assert changed["main"].ret_struct_info.vdevice is not None


def test_another_device():
    new = VDevice("c", 0)
    changed = transform.UpdateVDevice(new, 1)(Realized)
    assert structural_equal(changed.global_infos["vdevice"][1], new)
    found = [param.struct_info.vdevice for param in changed["main"].params]
    assert all(structural_equal(one, new) for one in found)
    text = changed.script()
    assert "c:0" in text and "cuda" not in text
    assert Realized.script().count("cuda") > 3  # the module that was given is as it was
    with pytest.raises(ConfigError, match="no device number 2"):
        transform.UpdateVDevice(new, 2)(Realized)
    with pytest.raises(TypeMismatchError, match="takes a VDevice"):
        transform.UpdateVDevice("c", 0)(Realized)
