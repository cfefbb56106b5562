"""What a quantisation is to do: `qconfig`, and the state of one while it runs."""

from __future__ import annotations

import difflib
from types import TracebackType
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.expr import Call
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.support.scopes import Scoped

__all__ = [
    "QAnnotateKind", "QConfig", "QuantizeContext", "current_qconfig", "kind2str", "operator_name",
    "qconfig", "quantize_context",
]  # fmt: skip


def operator_name(expr: Any) -> str:
    """Return the name of the operator that an expression calls, "" for any other expression."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else ""


class QAnnotateKind:
    """What a quantised value is: an operand (INPUT), a weight, a sum of products (ACTIVATION)."""

    IDENTITY = 0
    INPUT = 1
    WEIGHT = 2
    ACTIVATION = 3


_NAMES = {
    QAnnotateKind.INPUT: "input",
    QAnnotateKind.WEIGHT: "weight",
    QAnnotateKind.ACTIVATION: "activation",
    QAnnotateKind.IDENTITY: "identity",
}


def kind2str(kind: int) -> str:
    """Return the name of a kind: "input", "weight", "activation", "identity"."""
    if kind not in _NAMES:
        raise ConfigError(f"{kind} is no kind of value", notes=("see QAnnotateKind",))
    return _NAMES[kind]


_FIELDS: dict[str, Any] = {
    "nbit_input": 8,
    "nbit_weight": 8,
    "nbit_activation": 32,
    "dtype_input": "int8",
    "dtype_weight": "int8",
    "dtype_activation": "int32",
    "calibrate_mode": "global_scale",
    "global_scale": 8.0,
    "weight_scale": "power2",
    "skip_dense_layer": True,
    "skip_conv_layers": (0,),
    "do_simulation": False,
    "round_for_shift": True,
    "debug_enabled_ops": None,
    "rounding": "UPWARD",
    "calibrate_chunk_by": -1,
    "partition_conversions": "disabled",
}
_CHOICES = {
    "calibrate_mode": ("global_scale", "kl_divergence", "percentile"),
    "weight_scale": ("power2", "max", "channel_max"),
    "rounding": ("UPWARD", "TONEAREST"),
    "partition_conversions": ("disabled", "enabled", "fully_integral"),
    "dtype_input": ("int8", "uint8"),
    "dtype_weight": ("int8",),
    "dtype_activation": ("int32",),
}


class QConfig(Scoped):
    """How a network is quantised; entered by ``with``.

    * ``nbit_…``, ``dtype_…``: bits and dtypes of operands, weights and sums;
    * ``calibrate_mode``: "global_scale" takes ``global_scale`` as the greatest operand everywhere,
      "kl_divergence" and "percentile" choose it from a dataset;
    * ``weight_scale``: the greatest weight, "power2" rounded up to a power of two, "max" as it is,
      "channel_max" for each output channel;
    * ``skip_dense_layer``, ``skip_conv_layers`` (numbers of convolutions): what stays in floats;
      ``debug_enabled_ops``: names of the only operators that do not;
    * ``do_simulation``: stop before integers; ``rounding``: see `qnn.op.requantize`;
    * ``round_for_shift``, ``calibrate_chunk_by`` (tensors that are profiled at once; -1: all);
    * ``partition_conversions``: "enabled" puts the conversions at both ends into functions of their
      own, "fully_integral" also demands that no floats are left between them.
    """

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            if name not in _FIELDS:
                near = difflib.get_close_matches(name, _FIELDS, n=1)
                raise ConfigError(
                    f"qconfig has no field '{name}'",
                    notes=(f"did you mean '{near[0]}'?",) if near else tuple(_FIELDS),
                )
            if name in _CHOICES and value not in _CHOICES[name]:
                raise ConfigError(f"qconfig: {name} is one of {_CHOICES[name]}, not {value!r}")
        self._fields = {**_FIELDS, **fields}
        for kind in ("input", "weight"):
            if not 2 <= self._fields["nbit_" + kind] <= 8:
                raise ConfigError(f"qconfig: nbit_{kind} is between 2 and 8")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(name)
        return self._fields[name]

    def __str__(self) -> str:
        return f"qconfig({', '.join(f'{key}={one!r}' for key, one in self._fields.items())})"

    __repr__ = __str__

    def guard(self, ref_call: Any) -> bool:
        """Return whether a call may be quantised: all may, unless ``debug_enabled_ops`` names
        some.
        """
        names = self.debug_enabled_ops
        return names is None or operator_name(ref_call) in [str(one) for one in names]

    def get_nbit_by_kind(self, kind: int) -> int:
        """Return the bits of values of a kind."""
        bits: int = self._fields["nbit_" + kind2str(kind)]
        return bits

    def get_dtype_by_kind(self, kind: int) -> str:
        """Return the dtype of values of a kind."""
        dtype: str = self._fields["dtype_" + kind2str(kind)]
        return dtype

    @classmethod
    def current(cls) -> QConfig:
        """Return the configuration that was entered last, or the defaults."""
        return cls.innermost() or _DEFAULTS


_DEFAULTS = QConfig()


def qconfig(**kwargs: Any) -> QConfig:
    """Return a configuration, to be entered by ``with``; see `QConfig`."""
    return QConfig(**kwargs)


def current_qconfig() -> QConfig:
    """Return the configuration in force."""
    return QConfig.current()


class QuantizeContext:
    """Counts layers while a function is annotated, to know which of them are skipped."""

    Current: QuantizeContext | None = None

    def __init__(self) -> None:
        self.qnode_map: dict[Any, Any] = {}
        self._conv2d_counter = 0
        self._stop_quantize = False

    def check_to_skip(self, ref_call: Any) -> bool:
        """Return whether a call stays in floats: a convolution by its number, dense products."""
        if self._stop_quantize:
            return True
        config, name = current_qconfig(), operator_name(ref_call)
        if name == "nn.conv2d":
            number = self._conv2d_counter
            self._conv2d_counter += 1
            if config.skip_conv_layers is not None:
                if number in [int(one) for one in config.skip_conv_layers]:
                    return True
        if name == "nn.dense" and config.skip_dense_layer:
            return True
        return not config.guard(ref_call)

    def stop_quantize(self) -> None:
        """Leave all that follows in floats."""
        self._stop_quantize = True

    def reset(self) -> None:
        """Begin to count again."""
        self._conv2d_counter = 0
        self._stop_quantize = False
        self.qnode_map = {}

    def __enter__(self) -> QuantizeContext:
        self.reset()
        QuantizeContext.Current = self
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        QuantizeContext.Current = None


def quantize_context() -> QuantizeContext:
    """Return the context of the annotation that runs."""
    if QuantizeContext.Current is None:
        raise UnsupportedError("no annotation runs", notes=("with QuantizeContext(): ...",))
    return QuantizeContext.Current
