"""Networks to try things with, and helpers of tests.

    mod, params = relay.testing.resnet.get_workload(num_layers=18, batch_size=1)
    relay.testing.check_grad(relay.Function([x], relay.tanh(x)))

* Networks: `mlp`, `resnet`, `resnet_3d`, `mobilenet`, `vgg`, `densenet`, `inception_v3`,
  `squeezenet`, `dcgan`, `dqn`, `lstm`, `synthetic`, made of `layers`, with weights of `init`.
* `run_opt_pass`, `run_infer_type`, `count_ops`, `rand` (`tools.py`); `check_grad`.
* `to_python`, `run_as_python`: programs as Python's own (`py_converter.py`); `nat`: numbers as data.
"""

from tilesmith.support.lazy import lazy_attributes

_MODULES = (
    "dcgan", "densenet", "dqn", "inception_v3", "init", "layers", "lstm", "mlp", "mobilenet",
    "resnet", "resnet_3d", "squeezenet", "synthetic", "temp_op_attr", "vgg",
)  # fmt: skip

_LAZY = {
    **{name: f"{__name__}.{name}" for name in _MODULES},
    "Prelude": "tilesmith.relay.prelude:Prelude",
    "TempOpAttr": f"{__name__}.temp_op_attr:TempOpAttr",
    "count_ops": f"{__name__}.tools:count_ops",
    "create_workload": f"{__name__}.init:create_workload",
    "enabled_targets": "tilesmith.testing.assertions:enabled_targets",
    "op": "tilesmith.relay.op",
    "rand": f"{__name__}.tools:rand",
    "relay": "tilesmith.relay",
    "run_infer_type": f"{__name__}.tools:run_infer_type",
    "run_opt_pass": f"{__name__}.tools:run_opt_pass",
    "te": "tilesmith.te",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)
