"""External code in modules: object files, C, C++."""

import shutil

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import spec
from tilesmith.runtime import load_module
from tilesmith.support.errors import (
    FileError,
    MissingDependencyError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")

C_CODE = """
#include <tvm/ffi/c_api.h>
static DLTensor* tensor(const TVMFFIAny* arg) {
  if (arg->type_index == kTVMFFIDLTensorPtr) return (DLTensor*)arg->v_ptr;
  return (DLTensor*)((char*)arg->v_obj + sizeof(TVMFFIObject));
}
int __tvm_ffi_doubled(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  DLTensor *x = tensor(args), *y = tensor(args + 1);
  (void)self; (void)count; (void)result;
  for (int64_t i = 0; i < x->shape[0]; ++i) ((float*)y->data)[i] = 2 * ((float*)x->data)[i];
  return 0;
}
"""

CPP_CODE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
static int Scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView y) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    static_cast<float*>(y.data_ptr())[i] = static_cast<float*>(x.data_ptr())[i] * factor;
  }
  return 0;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scaled, Scale);
"""


def like(x, *more):
    return nn.Tensor.placeholder(x.shape, x.dtype)


class Model(nn.Module):
    def __init__(self, external, name, *more):
        self.external = external
        self.name = name
        self.more = more

    def forward(self, x):
        return self.external[self.name](x, *self.more) + 1


INPUT = {"forward": {"x": spec.Tensor(["n"], "float32")}}
X = np.arange(5, dtype="float32")


@needs_compiler
def test_c_code_is_a_part_of_the_model(tmp_path):
    source = nn.SourceModule({"doubled": like}, source_code=C_CODE, source_format="c")
    module, _, external = Model(source, "doubled").export_tvm(INPUT, allow_extern=True)
    assert external == [source] and 'R.call_dps_packed("doubled", (x,)' in module.script()
    built = relax.build(module)
    np.testing.assert_array_equal(built["forward"](X).numpy(), 2 * X + 1)
    built.export_library(str(tmp_path / "model.so"))
    loaded = load_module(str(tmp_path / "model.so"))
    np.testing.assert_array_equal(loaded["forward"](X).numpy(), 2 * X + 1)


@needs_compiler
def test_cpp_code_takes_numbers(tmp_path):
    path = tmp_path / "scale.cc"
    path.write_text(CPP_CODE)
    source = nn.SourceModule({"scaled": like}, source_code=path, source_format="cpp")
    module, _, _ = Model(source, "scaled", 2.5).export_tvm(INPUT, allow_extern=True)
    built = relax.build(module)
    np.testing.assert_array_equal(built["forward"](X).numpy(), 2.5 * X + 1)
    built.save(str(tmp_path / "model.tsm"))
    loaded = load_module(str(tmp_path / "model.tsm"))
    np.testing.assert_array_equal(loaded["forward"](X).numpy(), 2.5 * X + 1)


@needs_compiler
def test_external_code_in_jit(tmp_path):
    torch = pytest.importorskip("torch")
    source = nn.SourceModule({"doubled": like}, source_code=C_CODE, source_format="c")
    compiled = Model(source, "doubled").jit(INPUT)
    assert compiled["forward"](torch.tensor(X)).tolist() == (2 * X + 1).tolist()


@needs_compiler
def test_an_object_file_is_a_part_of_the_model(tmp_path):
    source = nn.SourceModule({"doubled": like}, source_code=C_CODE, source_format="c")
    source.compile(tmp_path / "code.o")
    object_file = nn.ObjectModule({"doubled": like}, tmp_path / "code.o")
    module, _, _ = Model(object_file, "doubled").export_tvm(INPUT, allow_extern=True)
    np.testing.assert_array_equal(relax.build(module)["forward"](X).numpy(), 2 * X + 1)


def test_mistakes(tmp_path):
    with pytest.raises(FileError, match="no object file"):
        nn.ObjectModule({"f": like}, tmp_path / "missing.o")
    with pytest.raises(FileError, match="cannot be read"):
        nn.SourceModule({"f": like}, source_code=tmp_path / "missing.cc", source_format="cpp")
    with pytest.raises(UnsupportedError, match="CUDA"):
        nn.SourceModule({"f": like}, source_code="", source_format="cu")
    with pytest.raises(UnsupportedError, match="output_format"):
        nn.SourceModule({"f": like}, source_code="", source_format="c", output_format="wasm")
    with pytest.raises(TypeMismatchError, match="'f' comes with"):
        nn.ExternModule({"f": (2, 3)})
    module = nn.SourceModule({"f": like}, C_CODE, "c", compiler="no_such_compiler")
    with pytest.raises(MissingDependencyError, match="no_such_compiler"):
        module.load()
    with pytest.raises(UnknownNameError, match="no function 'g'"):
        module["g"]
    with pytest.raises(FileError, match="3rdparty"):
        nn.SourceModule.get_includes(["no_such_package"])


@needs_compiler
def test_export_without_allow_extern_says_what_to_do():
    source = nn.SourceModule({"doubled": like}, source_code=C_CODE, source_format="c")
    with pytest.raises(UnsupportedError, match="allow_extern=True"):
        Model(source, "doubled").export_tvm(INPUT)
