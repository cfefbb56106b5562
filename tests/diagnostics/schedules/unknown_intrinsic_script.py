"""A tensor intrinsic with a slip in its name."""

from tilesmith import tir

tir.TensorIntrin.get("dot_4x4_i8i8s32_neoon")
