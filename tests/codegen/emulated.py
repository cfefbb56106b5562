"""Runs code for other machines: an object file, linked with a small program in C, in user-mode
QEMU.

It needs `qemu-ARCH` (Debian: qemu-user) and a C compiler for that machine: `ziglang` of PyPI, or
Debian's cross compilers. `needs` marks tests; they are skipped, with the reason, where one is
missing.
"""

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Machine:
    qemu: str
    zig_target: str
    gcc: str
    package: str

    def emulator(self):
        return shutil.which(self.qemu) or shutil.which(self.qemu + "-static")

    def compiler(self):
        """The command of a C compiler that makes programs for this machine; None without one."""
        found = shutil.which(self.gcc)
        if found is not None:
            return [found, "-static"]
        if importlib.util.find_spec("ziglang") is not None:  # its first program takes a minute
            return [sys.executable, "-m", "ziglang", "cc", "-target", self.zig_target]
        return None


MACHINES = {
    "armv7": Machine(
        "qemu-arm", "arm-linux-musleabihf", "arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"
    ),
    "aarch64": Machine(
        "qemu-aarch64", "aarch64-linux-musl", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"
    ),
    "riscv64": Machine(
        "qemu-riscv64", "riscv64-linux-musl", "riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"
    ),
}

DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { PAGE = 65536 };
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text) { puts(text); abort(); }
void __arm_tpidr2_save(void) { abort(); }
typedef int Kernel(void *, void *, void *, void *);
@DECLARATIONS@
static struct { const char *name; Kernel *code; } kernels[] = { @ROWS@ };
/* The name of a function, then of files: each array ends where an inaccessible page begins. */
int main(int count, char **names) {
    char *place[6] = {0};
    long size[6];
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        fseek(file, 0, SEEK_END);
        size[i] = ftell(file);
        rewind(file);
        long room = (size[i] + PAGE - 1) / PAGE * PAGE;
        char *base = mmap(0, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(base + PAGE, room, PROT_READ | PROT_WRITE);
        place[i] = base + PAGE + room - size[i];
        if (fread(place[i], 1, size[i], file) != (size_t)size[i]) return 2;
        fclose(file);
    }
    int code = 3;
    for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++)
        if (strcmp(kernels[k].name, names[1]) == 0)
            code = kernels[k].code(place[2], place[3], place[4], place[5]);
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(names[i], "wb");
        fwrite(place[i], 1, size[i], file);
        fclose(file);
    }
    return code;
}
"""


def needs(name):
    """Mark tests that run code for a machine."""
    machine = MACHINES[name]
    return pytest.mark.skipif(
        machine.emulator() is None or machine.compiler() is None,
        reason=f"running {name} code needs {machine.qemu} (Debian: qemu-user) and ziglang (PyPI) or"
        f" {machine.package} (Debian)",
    )


class Program:
    """Functions as a program of another machine; `build()` gives their module, unless the folder
    holds the program already.
    """

    def __init__(self, folder, machine, build, names):
        self.folder, self.machine = folder, MACHINES[machine]
        self.path = folder / "program"
        if self.path.exists():
            return
        build().save(str(folder / "kernels.o"))
        rows = ", ".join(f'{{"{name}", (Kernel *)kernel_{name}}}' for name in names)
        lines = [f'extern int kernel_{name}(void) __asm__("{name}");' for name in names]
        text = DRIVER.replace("@DECLARATIONS@", "\n".join(lines)).replace("@ROWS@", rows)
        (folder / "driver.c").write_text(text)
        files = [str(folder / "driver.c"), str(folder / "kernels.o"), "-o", str(self.path)]
        subprocess.run([*self.machine.compiler(), *files], check=True)

    def run(self, function, arrays, cpu="max"):
        """Call a function on copies of arrays; return them as it leaves them."""
        files = [str(self.folder / f"{number}.bin") for number in range(len(arrays))]
        for file, array in zip(files, arrays):
            array.tofile(file)
        command = [self.machine.emulator(), "-cpu", cpu, str(self.path), function, *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return [np.fromfile(f, a.dtype).reshape(a.shape) for f, a in zip(files, arrays)]
