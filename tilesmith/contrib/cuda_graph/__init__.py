"""Runs models on NVIDIA GPUs as CUDA graphs: one launch replays all kernels."""
