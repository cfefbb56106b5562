"""Packed functions that call libraries of others (BLAS, oneDNN) or numpy: what operators of
`te.extern` name, under the names that users know (`tvm.contrib.cblas.matmul`).
"""
