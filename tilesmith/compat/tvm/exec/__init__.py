"""Programs that users start with `python -m tvm.exec.NAME`."""
