"""The tensor expressions of operators: functions of attributes and te tensors, on top of `topi`.

Each is found by name from an operator's record (`OpSpec.compute`) when it is needed.
"""
