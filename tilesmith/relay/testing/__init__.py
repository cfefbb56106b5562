"""Networks to try things with, and helpers of tests.

    mod, params = relay.testing.resnet.get_workload(num_layers=18, batch_size=1)
    relay.testing.check_grad(relay.Function([x], relay.tanh(x)))

* Networks: `mlp`, `resnet`, `resnet_3d`, `mobilenet`, `vgg`, `densenet`, `inception_v3`,
  `squeezenet`, `dcgan`, `dqn`, `lstm`, `synthetic`, made of `layers`, with weights of `init`.
* `run_opt_pass`, `run_infer_type`, `count_ops`, `rand` (`tools.py`); `check_grad`.
* `to_python`, `run_as_python`: programs as Python's own (`py_converter.py`); `nat`: numbers as
  data.
"""

from tilesmith.support.lazy import lazy_attributes

_MODULES = (
    "dcgan", "densenet", "dqn", "inception_v3", "init", "layers", "lstm", "mlp", "mobilenet",
    "nat", "py_converter", "resnet", "resnet_3d", "squeezenet", "synthetic", "temp_op_attr", "vgg",
    "yolo_detection",
)  # fmt: skip

_LAZY = {
    **{name: f"{__name__}.{name}" for name in _MODULES},
    "byoc": "tilesmith.relay.testing.byoc",
    "Prelude": "tilesmith.relay.prelude:Prelude",
    "TempOpAttr": f"{__name__}.temp_op_attr:TempOpAttr",
    "check_grad": f"{__name__}.gradients:check_grad",
    "count": f"{__name__}.nat:count",
    "count_ops": f"{__name__}.tools:count_ops",
    "create_workload": f"{__name__}.init:create_workload",
    "enabled_targets": "tilesmith.testing.assertions:enabled_targets",
    "gradient": "tilesmith.relay.transform:gradient",
    "make_nat_expr": f"{__name__}.nat:make_nat_expr",
    "make_nat_value": f"{__name__}.nat:make_nat_value",
    "op": "tilesmith.relay.op",
    "rand": f"{__name__}.tools:rand",
    "relay": "tilesmith.relay",
    "run_as_python": f"{__name__}.py_converter:run_as_python",
    "run_infer_type": f"{__name__}.tools:run_infer_type",
    "run_opt_pass": f"{__name__}.tools:run_opt_pass",
    "te": "tilesmith.te",
    "to_python": f"{__name__}.py_converter:to_python",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)
