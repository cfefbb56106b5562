"""A model for a board without an operating system: C files that need the C library only.

python examples/board.py

The memory of the model is planned into two pools of given sizes. This machine stands for the board:
its C compiler compiles the package's files with a small main program.
"""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from tilesmith import ir, micro, relay
from tilesmith.relay.backend.executor import Executor, Runtime

MAIN = """
#include <stdio.h>
#include "tvmgen_net.h"
static float x[1 * 1 * 12 * 12], output[10];
static _Alignas(16) unsigned char tcm[TVMGEN_NET_TCM_WORKSPACE_POOL_SIZE];
static _Alignas(16) unsigned char sram[TVMGEN_NET_SRAM_WORKSPACE_POOL_SIZE];
int main(void) {
  struct tvmgen_net_inputs inputs = {x};
  struct tvmgen_net_outputs outputs = {output};
  struct tvmgen_net_workspace_pools pools = {sram, tcm};
  for (int i = 0; i < 144; ++i) x[i] = (float)i / 144;
  if (tvmgen_net_run(&inputs, &outputs, &pools) != 0) return 1;
  for (int i = 0; i < 10; ++i) printf("%.6f ", output[i]);
  return 0;
}
"""


def network():
    """Return a small network, and its weights."""
    random = np.random.default_rng(0)
    shapes = {"w": (4, 1, 3, 3), "d": (10, 576)}
    params = {one: random.normal(size=shape, scale=0.1) for one, shape in shapes.items()}
    x, w, d = [relay.var(n, shape=s) for n, s in {"x": (1, 1, 12, 12), **shapes}.items()]
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=4))
    body = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(y), d))
    module = ir.IRModule.from_expr(relay.Function([x, w, d], body))
    return module, {name: value.astype("float32") for name, value in params.items()}


def pack(path):
    """Build the network for a board with two memories and pack its files."""
    module, params = network()
    sizes = {"tcm": 2560, "sram": 64 * 1024}
    pools = [
        ir.WorkspacePoolInfo(name, ["c"], ir.PoolInfoProperties(size_hint_bytes=size))
        for name, size in sizes.items()
    ]
    lib = relay.build(
        module,
        "c",
        executor=Executor("aot", {"interface-api": "c", "unpacked-api": True}),
        runtime=Runtime("crt"),
        workspace_memory_pools=ir.WorkspaceMemoryPools(pools),
        params=params,
        mod_name="net",
    )
    print("bytes by memory:", lib.get_lib().memory["pools"], lib.get_lib().memory["constants"])
    return micro.export_model_library_format(lib, path)


def main() -> None:
    """Pack, unpack, compile, run, and compare with the same model in this process."""
    module, params = network()
    x = (np.arange(144, dtype="float32") / 144).reshape(1, 1, 12, 12)
    expected = relay.create_executor("graph", module, params=params).evaluate()(x).numpy()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(pack(folder / "net.tar")) as archive:
            print("\n".join(archive.getnames()))
            archive.extractall(folder, filter="data")
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            print("there is no C compiler here: the files are not compiled")
            return
        host = folder / "codegen" / "host"
        (folder / "main.c").write_text(MAIN)
        files = [str(one) for one in (*host.glob("src/*.c"), folder / "main.c")]
        words = [*files, f"-I{host / 'include'}", "-O2", "-fwrapv", "-lm", "-o", f"{folder}/net"]
        subprocess.run([compiler, *words], check=True)
        done = subprocess.run([f"{folder}/net"], capture_output=True, text=True, check=True)
    found = np.array(done.stdout.split(), "float32")
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    print("the board computes", found)


if __name__ == "__main__":
    main()
