"""Is what ``python -m tvm.exec.rpc_server`` runs: ``tilesmith rpc server``."""

from tilesmith.cli.main import tilesmith

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command with some arguments, or those of the process; end with its exit code."""
    import sys

    given = sys.argv[1:] if arguments is None else arguments
    tilesmith(["rpc", "server", *given], prog_name="tilesmith")


if __name__ == "__main__":
    main()
