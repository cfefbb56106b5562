"""Lists functions of the C library, and LLVM's intrinsics of equal meaning."""

from __future__ import annotations

__all__ = ["C_LIBRARY", "LIBM_FUNCTIONS", "LLVM_FUNCTIONS", "PURE_FUNCTION"]

# Functions that LLVM knows as intrinsics of the same meaning.
LLVM_FUNCTIONS = {
    "acos": "acos", "asin": "asin", "atan": "atan", "atan2": "atan2", "ceil": "ceil",
    "copysign": "copysign", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp10": "exp10",
    "exp2": "exp2", "fabs": "fabs", "floor": "floor", "log": "log", "log10": "log10",
    "log2": "log2", "nearbyint": "nearbyint", "round": "round", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
# Functions of the C library without such an intrinsic, called lane by lane.
LIBM_FUNCTIONS = ("acosh", "asinh", "atanh", "erf", "hypot", "log1p", "nextafter")
_OTHER_MATHEMATICS = (
    "fma", "fmod", "pow", "ldexp", "cbrt", "rint", "fmin", "fmax", "exp10", "frexp", "modf",
    "remainder", "lround", "expm1", "tgamma", "lgamma", "erfc",
)  # fmt: skip
C_LIBRARY = frozenset(
    [
        name + suffix
        for name in (*LLVM_FUNCTIONS, *LIBM_FUNCTIONS, *_OTHER_MATHEMATICS)
        for suffix in ("", "f", "l")
    ]
    + "abs abort calloc div exit free getenv main malloc memcmp memcpy memmove memset printf puts "
    "qsort rand read realloc remove signal sleep srand time write".split()
)
"""Names that LLVM or the linker take for functions of the C library."""
PURE_FUNCTION = "nounwind willreturn memory(none)"
