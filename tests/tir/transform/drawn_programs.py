"""Programs over two buffers: from their lines, and drawn at random."""

import random

from tilesmith.script import from_source, tir

HEAD = """@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
"""


def program(body):
    lines = [f"    {line}\n" for line in body.strip("\n").split("\n")]
    return from_source(HEAD + "".join(lines), {"T": tir})


class Drawn:
    """A random program over two buffers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loops = 0

    def index(self, names):
        one = self.random.choice([*names, "n", "3"])
        forms = [one, one, f"15 - {one}", f"{one} // 2", f"({one} + 1) % 16", "5"]
        if len(names) > 1:
            forms += [f"({names[0]} * 4 + {names[-1]}) % 16"] * 2
        return self.random.choice(forms)

    def value(self, names):
        forms = ["1", "2", f"{self.array()}[{self.index(names)}]", f"{self.index(names)} * 2"]
        return self.random.choice(forms)

    def array(self):
        return self.random.choice("AB")

    def condition(self, names):
        left = self.random.choice([self.value(names), self.index(names)])
        sign = self.random.choice(["==", "<", "!=", ">="])
        return f"{left} {sign} {self.random.choice([0, 1, 2, 5, 14])}"

    def statement(self, depth, names, indent):
        kind = self.random.choice(["store"] * 3 + ["loop"] * 2 + ["if"] * 2 + ["let"])
        pad = "    " * indent
        if depth == 0 or kind == "store":
            return f"{pad}{self.array()}[{self.index(names)}] = {self.value(names)}\n"
        if kind == "if":
            text = f"{pad}if {self.condition(names)}:\n" + self.block(depth - 1, names, indent + 1)
            if self.random.random() < 0.5:
                text += f"{pad}else:\n" + self.block(depth - 1, names, indent + 1)
            return text
        self.loops += 1
        name = f"i{self.loops}"
        if kind == "let":
            return f"{pad}{name}: T.int32 = {self.index(names)}\n" + self.block(
                depth - 1, [*names, name], indent
            )
        extent = self.random.choice(["16", "16", "n", f"({self.index(names)}) % 5"])
        return f"{pad}for {name} in range({extent}):\n" + self.block(
            depth - 1, [*names, name], indent + 1
        )

    def block(self, depth, names, indent):
        count = self.random.randint(1, 3)
        return "".join([self.statement(depth, names, indent) for _ in range(count)])
