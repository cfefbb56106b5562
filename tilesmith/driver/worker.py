"""A worker: compiles the kernels that come through its pipe. Started as ``python -m``."""

from tilesmith.driver.kernels import handle_job
from tilesmith.support.workers import serve

if __name__ == "__main__":
    serve(handle_job)
