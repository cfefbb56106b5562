"""Two loops of one kernel run on different numbers of the same threads."""

import tilesmith
from tilesmith import te

a = te.placeholder((64, 64), name="A")
b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
c = te.compute((64, 64), lambda i, j: b[i, 63 - j] + 1.0, name="C")
s = te.create_schedule(c.op)
s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
s[b].compute_at(s[c], c.op.axis[0])
s[b].set_scope("shared")
s[b].bind(s[b].split(b.op.axis[1], 16)[1], te.thread_axis("threadIdx.x"))
tilesmith.build(s, [a, c], target="opencl")
