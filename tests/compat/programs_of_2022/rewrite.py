"""Rewriting of graphs: a fused operator, fusion into functions, lowering by hand."""

# ruff: noqa: F821, UP031 - written as people wrote in 2022

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, topi
from tvm.ir.module import IRModule
from tvm.script import relax as R


@tvm.script.ir_module
class Pair:
    @R.function
    def main(x: Tensor((3, 4), "float32"), y: Tensor((3, 4), "float32")):
        with relax.dataflow():
            lv0 = relax.multiply(x, y)
            gv0 = relax.add(lv0, y)
            relax.output(gv0)
        return gv0


@relax.expr_functor.mutator
class FuseMultiplyAdd(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        add, multiply = tvm.ir.Op.get("relax.add"), tvm.ir.Op.get("relax.multiply")
        if call.op != add:
            return call
        value = self.lookup_binding(call.args[0])
        if value is None or not isinstance(value, relax.Call) or value.op != multiply:
            return call
        fma = tvm.ir.Op.get("relax.ewise_fma")
        return relax.Call(fma, [value.args[0], value.args[1], call.args[1]], None, None)


func = Pair["main"]
assert type(func) is relax.Function and type(func.body) is relax.SeqExpr
assert [type(block) for block in func.body.blocks] == [relax.DataflowBlock]
updated = FuseMultiplyAdd().visit_expr(func)
updated.show()
cleaned = relax.analysis.remove_all_unused(updated)
assert [b.value.op.name for b in cleaned.body.blocks[0].bindings] == ["relax.ewise_fma"]
x, y = np.full((3, 4), 2, "float32"), np.full((3, 4), 3, "float32")
vm = relax.VirtualMachine(relax.vm.build(IRModule({"main": cleaned}), "llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(x), tvm.nd.array(y)).numpy(), x * y + y)


rng = np.random.default_rng(0)
params = {
    "w0": rng.standard_normal((6, 8)).astype("float32"),
    "b0": rng.standard_normal(6).astype("float32"),
    "w1": rng.standard_normal((4, 6)).astype("float32"),
    "b1": rng.standard_normal(4).astype("float32"),
}


def create_model():
    bb = relax.BlockBuilder()
    x = relax.Var("x", (1, 8), relax.DynTensorType(2, "float32"))
    w0, b0, w1, b1 = (relax.const(value, "float32") for value in params.values())
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.nn.dense(x, w0))
            lv1 = bb.emit(relax.op.add(lv0, b0))
            lv2 = bb.emit(relax.op.relu(lv1))
            lv3 = bb.emit(relax.op.dense(lv2, w1))
            lv4 = bb.emit(relax.op.add(lv3, b1))
            gv = bb.emit_output(lv4)
        bb.emit_func_output(gv)
    return bb.get()


@relax.expr_functor.mutator
class DenseAddFusor(relax.PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self.mod_ = mod
        self.add_op = tvm.ir.Op.get("relax.add")
        self.dense_op = tvm.ir.Op.get("relax.nn.dense")
        self.counter = 0

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            if "Primitive" in func.attrs.keys() and func.attrs["Primitive"] != 0:
                continue
            updated = self.visit_expr(func)
            updated = relax.analysis.remove_all_unused(updated)
            self.builder_.update_func(global_var, updated)
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)

        def match_call(node, op):
            return isinstance(node, relax.Call) and node.op == op

        if not match_call(call, self.add_op):
            return call
        value = self.lookup_binding(call.args[0])
        if value is None or not match_call(value, self.dense_op):
            return call
        x, w, b = value.args[0], value.args[1], call.args[1]
        param_x = relax.Var("x", x.shape_, x._checked_type_)
        param_w = relax.Var("w", w.shape_, w._checked_type_)
        param_b = relax.Var("b", b.shape_, b._checked_type_)
        bb = relax.BlockBuilder()
        name = "fused_dense_add%d" % self.counter
        self.counter += 1
        with bb.function(name, [param_x, param_w, param_b]):
            with bb.dataflow():
                lv0 = bb.emit(relax.op.nn.dense(param_x, param_w))
                gv = bb.emit_output(relax.op.add(lv0, param_b))
            bb.emit_func_output(gv)
        fused = bb.get()[name].with_attr("Primitive", 1)
        global_var = self.builder_.add_func(fused, name)
        return relax.Call(global_var, [x, w, b], None, None)


@tvm.ir.transform.module_pass(opt_level=2, name="DenseAddFusion")
class FuseDenseAddPass:
    def transform_module(self, mod, ctx):
        return DenseAddFusor(mod).transform()


@relax.expr_functor.mutator
class LowerToTensorIR(relax.PyExprMutator):
    def __init__(self, mod: IRModule, op_map) -> None:
        super().__init__()
        self.mod_ = mod
        self.op_map = {tvm.ir.Op.get(k): v for k, v in op_map.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op in self.op_map:
            return self.op_map[call.op](self.builder_, call)
        return call

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            self.builder_.update_func(global_var, self.visit_expr(func))
        return self.builder_.get()


op_map = {
    "relax.nn.dense": lambda bb, call: bb.call_te(topi.nn.dense, *call.args),
    "relax.add": lambda bb, call: bb.call_te(topi.add, *call.args),
    "relax.nn.relu": lambda bb, call: bb.call_te(topi.nn.relu, *call.args),
}


@tvm.ir.transform.module_pass(opt_level=0, name="LowerToTensorIR")
class LowerToTensorIRPass:
    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, op_map).transform()


model = create_model()
fused = FuseDenseAddPass()(model)
names = sorted(v.name_hint for v in fused.get_global_vars())
assert names == ["fused_dense_add0", "fused_dense_add1", "main"], names
lowered = LowerToTensorIRPass()(fused)
final = relax.transform.FuseTIR()(lowered)
x = rng.standard_normal((1, 8)).astype("float32")
want = np.maximum(x @ params["w0"].T + params["b0"], 0) @ params["w1"].T + params["b1"]
for each in (model, fused, lowered, final):
    vm = relax.VirtualMachine(relax.vm.build(each, target="llvm"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), want, rtol=1e-4, atol=1e-5)
final.show()
print("ok")
