"""Models in C programs: object code or C source, a header, parameters."""

import shutil
import subprocess

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.runtime.executable import load
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, UnknownNameError, UnsupportedError

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3, 5), "float32"), w: R.Tensor((5, 4), "float32")) -> R.Tuple(
        R.Tensor((3, 4), "float32"), R.Tensor((3,), "int64")
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(R.nn.relu(a))
            c = R.argmax(b, axis=1)
            R.output(b, c)
        return (b, c)

    @R.function
    def rows(
        x: R.Tensor(("n", 5), "float32"),
        flags: R.Tensor(("n", 1), "bool"),
        y: R.Tensor((5,), "int8"),
    ) -> R.Tensor(("n * 2", 5), "float32"):
        with R.dataflow():
            a = R.where(flags, x, R.astype(y, "float32"))
            b = R.matmul(a, R.const(np.eye(5, dtype="float32") * 3))
            c = R.concat((R.exp(b), x), axis=0)
            R.output(c)
        return c


MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "m.h"
#include OTHER

static int show(const char* what, int32_t status) {
  if (status != 0) printf("%s: %d %s\n", what, (int)status, m_last_error());
  return status != 0;
}

int main(int argc, char** argv) {
  static float x[3 * 5], b[3 * 4], rows[40 * 5];
  static _Alignas(64) unsigned char workspace[1 << 16];
  int64_t c[3], sizes[M_ROWS_SIZES];
  bool flags[3] = {true, false, true};
  int8_t y[5] = {1, -2, 3, 0, -1};
  m_weights weights;
  void* memory = NULL;
  (void)argc;
  m_set_threads(2);
  for (int i = 0; i < 15; ++i) x[i] = (float)(i % 7) / 4 - 1;
  if (show("weights", LOAD)) return 1;
  if (M_MAIN_WORKSPACE_BYTES > sizeof(workspace)) return 2;
  if (show("main", m_main(x, b, c, &weights, workspace))) return 1;
  if (show("sizes", m_rows_sizes(3, sizes))) return 1;
  if (sizes[0] != 6 || sizes[1] != 5 || sizes[2] > (int64_t)sizeof(workspace)) return 3;
  if (show("rows", m_rows(x, flags, y, rows, 3, &weights, workspace))) return 1;
  fwrite(b, sizeof(float), 12, stdout);
  fwrite(c, sizeof(int64_t), 3, stdout);
  fwrite(rows, sizeof(float), 30, stdout);
  free(memory);
  (void)argv;
  return 0;
}
"""


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).standard_normal((5, 4)).astype("float32")


@pytest.fixture(scope="module", params=["llvm", "c"])
def built(request, weights):
    if request.param == "c" and COMPILER is None:
        pytest.skip("there is no C compiler")
    return relax.build(Model, request.param, params={"w": weights})


def compiled(folder, code, other, load, standard="c11"):
    """Compile and link a program."""
    source = MAIN.replace("LOAD", load).replace("OTHER", f'"{other}"')
    (folder / "main.c").write_text(source)
    words = [COMPILER, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fwrapv", "main.c"]
    words += ["-Wno-unused-function", *code, "-o", "program", "-lm", "-lpthread"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def check(program, executable, *arguments):
    x = (np.arange(15) % 7 / 4 - 1).astype("float32").reshape(3, 5)
    flags = np.array([[True], [False], [True]])
    b, c = executable(x)
    rows = executable["rows"](x, flags, np.array([1, -2, 3, 0, -1], "int8"))
    done = subprocess.run([program, *arguments], capture_output=True)
    assert done.returncode == 0, (done.returncode, done.stdout[:200])
    assert done.stdout == b.numpy().tobytes() + c.numpy().tobytes() + rows.numpy().tobytes()


@needs_compiler
def test_object_code_and_a_file_of_parameters(built, tmp_path):
    files = built.export_c(tmp_path / "m.o")
    assert files == [str(tmp_path / name) for name in ("m.o", "m.h", "m.safetensors")]
    # a second model of the same kernels in the same program
    built.export_c(tmp_path / "k.o", ["rows"], embed=True)
    load = "m_load_weights(&weights, argv[1], &memory)"
    program = compiled(tmp_path, ["m.o", "k.o"], "k.h", load)
    check(program, built, tmp_path / "m.safetensors")
    content = (tmp_path / "m.safetensors").read_bytes()
    for damage, status in (
        (content[:-1], 1), (content + b"x", 1), (content[:9] + b"?" + content[10:], 3), (None, 4),
    ):  # fmt: skip
        (tmp_path / "damaged").unlink(missing_ok=True)
        if damage is not None:
            (tmp_path / "damaged").write_bytes(damage)
        done = subprocess.run([program, tmp_path / "damaged"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, f"weights: {status} \n")


@needs_compiler
def test_embedded_parameters(built, tmp_path):
    files = built.export_c(tmp_path / "m.o", embed=True)
    assert files == [str(tmp_path / "m.o"), str(tmp_path / "m.h")]
    check(compiled(tmp_path, ["m.o"], "m.h", "m_embedded_weights(&weights)"), built)


@needs_compiler
def test_c_source(built, tmp_path):
    if built.metadata["target"].startswith("llvm"):
        with pytest.raises(UnsupportedError, match="(?s)'.c'.*build the model for the target 'c'"):
            built.export_c(tmp_path / "m.c")
        return
    built.export_c(tmp_path / "m.c", embed=True)
    built.export_c(tmp_path / "k.c", ["main"])
    program = compiled(tmp_path, ["m.c", "k.c"], "k.h", "m_embedded_weights(&weights)")
    x = np.ones((3, 5), "float32")
    assert np.isfinite(built(x)[0].numpy()).all()
    done = subprocess.run([program], capture_output=True)
    assert done.returncode == 0 and len(done.stdout) == 12 * 4 + 3 * 8 + 30 * 4
    found = np.frombuffer(done.stdout[:48], "float32").reshape(3, 4)
    given = (np.arange(15) % 7 / 4 - 1).astype("float32").reshape(3, 5)
    np.testing.assert_allclose(found, built(given)[0].numpy(), rtol=1e-6)


@needs_compiler
def test_the_header_is_valid_c_and_cpp(built, tmp_path):
    built.export_c(tmp_path / "m.o", embed=True)
    built.export_c(tmp_path / "n.o")
    for name, words in (("m.h", ["c", "c99"]), ("n.h", ["c", "c99"]), ("n.h", ["c++", "c++11"])):
        language, standard = words
        line = [COMPILER, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x",
                language, f"-std={standard}", name]  # fmt: skip
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_what_the_header_says(built, tmp_path):
    built.export_c(tmp_path / "m.o")
    text = (tmp_path / "m.h").read_text()
    for line in (
        "    const float* x,  /* input: float32[3, 5] */",
        "    const bool* flags,  /* input: bool[n, 1] */",
        "    const int8_t* y,  /* input: int8[5] */",
        "    float* output_0,  /* output: float32[n * 2, 5] */",
        "    int64_t* output_1,  /* output: int64[3] */",
        "    int64_t n,  /* a size */",
        "     sizes[0]: axis 0 of output_0: n * 2",
    ):
        assert line in text.splitlines()


@I.ir_module
class Square:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32")) -> R.Tensor(("n", "n"), "float32"):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n, n), "float32"))
        z = R.exp(y)
        return z


FAILING = r"""
#include <stdio.h>
#include "m.h"
int main(void) {
  static float x[6] = {0}, y[9];
  if (m_main(x, y, 2, 2) != 0 || m_last_error()[0] != 0 || y[3] != 1) return 1;
  if (m_main(x, y, 2, 3) == 0) return 2;
  puts(m_last_error());
  return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize(("target", "suffix"), [("llvm", ".o"), ("c", ".o"), ("c", ".c")])
def test_errors_have_texts(target, suffix, tmp_path):
    executable = relax.build(Square, target)
    assert executable.export_c(tmp_path / f"m{suffix}") == [
        str(tmp_path / f"m{suffix}"), str(tmp_path / "m.h"),
    ]  # fmt: skip
    (tmp_path / "main.c").write_text(FAILING)
    words = [COMPILER, "-fwrapv", "main.c", f"m{suffix}", "-o", "program", "-lm", "-lpthread"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("ShapeError: "), done
    with pytest.raises(ShapeError) as caught:
        executable(np.ones((2, 3), "float32"))
    assert caught.value.message in done.stdout


@I.ir_module
class Shared:
    @T.prim_func
    def checked(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            assert x[i] > 0, "a number is not positive"
            y[i] = x[i] * 2

    @R.function
    def main(x: R.Tensor((8,), "int32")) -> R.Tensor((8,), "int32"):
        y = R.call_tir(Shared.checked, (x,), out_sinfo=R.Tensor((8,), "int32"))
        return y


FAILING_TASK = r"""
#include <stdio.h>
#include "m.h"
int main(void) {
  static int32_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
  m_set_threads(2);
  if (m_main(x, y) != 0 || y[7] != 16) return 1;
  x[6] = 0;
  if (m_main(x, y) == 0) return 2;
  puts(m_last_error());
  return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize(("target", "suffix"), [("llvm", ".o"), ("c", ".o"), ("c", ".c")])
def test_errors_of_tasks_reach_the_caller(target, suffix, tmp_path):
    relax.build(Shared, target).export_c(tmp_path / f"m{suffix}")
    (tmp_path / "main.c").write_text(FAILING_TASK)
    words = [COMPILER, "-fwrapv", "main.c", f"m{suffix}", "-o", "program", "-lm", "-lpthread"]
    done = subprocess.run([*words, "-fopenmp"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True)
    assert done.returncode == 0 and "a number is not positive" in done.stdout, done


@I.ir_module
class Odd:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(dtype="int64", ndim=2):
        y = R.nonzero(x)
        return y

    @R.function
    def last_error(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.exp(x)
        return y


def test_what_cannot_be_exported(built, tmp_path):
    odd = relax.build(Odd, "llvm")
    with pytest.raises(UnsupportedError, match="(?s)'main' cannot be a C function: .*others"):
        odd.export_c(tmp_path / "m.o")
    with pytest.raises(UnsupportedError, match="'m_last_error' in C"):
        odd.export_c(tmp_path / "m.o", ["last_error"])
    with pytest.raises(UnknownNameError, match="no function 'mian'"):
        built.export_c(tmp_path / "m.o", ["mian"])
    with pytest.raises(UnsupportedError, match="neither object code nor C source"):
        built.export_c(tmp_path / "m.h")
    assert list(tmp_path.iterdir()) == []
    built.save(tmp_path / "m.tsm")
    with pytest.raises(UnsupportedError, match="build it again"):
        load(tmp_path / "m.tsm").export_c(tmp_path / "m.o")
