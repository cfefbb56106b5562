"""The command and its subcommands; reports errors as one line and an exit code.

Exit codes: 0 success; 1 the model, the data or the machine is at fault (one line on standard error
says what to do); 2 the command line is invalid; 70 an internal error of Tilesmith; 130 interrupted
(`tilesmith fuzz` also 143: ended by SIGTERM).
With `--json` an error is also one JSON object on standard output: {"error", "kind", "exit_code"}.
`TILESMITH_TRACEBACK=full` shows the internal frames of any error.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from tilesmith import __version__
from tilesmith.cli.options import print_json
from tilesmith.support.caller import is_installed
from tilesmith.support.errors import InternalError, TilesmithError, format_span

FAILED, USAGE, INTERNAL, INTERRUPTED = 1, 2, 70, 130

# Subcommand → module. Imported at first use, so that `--help` is quick.
COMMANDS = {
    "compile": "tilesmith.cli.compile:compile_command",
    "run": "tilesmith.cli.run:run_command",
    "bench": "tilesmith.cli.bench:bench_command",
    "profile": "tilesmith.cli.profile:profile_command",
    "explain": "tilesmith.cli.explain:explain_command",
    "inspect": "tilesmith.cli.inspect:inspect_command",
    "doctor": "tilesmith.cli.doctor:doctor_command",
    "cache": "tilesmith.cli.cache:cache_command",
    "rpc": "tilesmith.cli.rpc:rpc_command",
    "fuzz": "tilesmith.cli.fuzz:fuzz_command",
}


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, line: int, *_: Any
) -> None:
    """Print a warning on one line of standard error, without the place in our code."""
    if issubclass(category, UserWarning):
        click.echo(f"warning: {' '.join(str(message).split())}", err=True)


def one_line(error: BaseException) -> str:
    """Return an error as one line: the problem, its place, and what to do."""
    if isinstance(error, TilesmithError):
        texts = (error.message, format_span(_place(error)), *error.notes)
        parts = [line.strip() for text in texts for line in text.splitlines()]
        return "; ".join(part for part in parts if part)
    if isinstance(error, MemoryError):
        return "the machine has not enough memory for this"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return where + (error.strerror or str(error))
    return " ".join(f"{type(error).__name__}: {error}".split())


def _place(error: TilesmithError) -> Any:
    """Return the position of an error, if that is not only the command's own call."""
    if error.caller is None or not is_installed(error.caller.code):
        return error.place
    return error.span


class Tilesmith(click.Group):
    """A command group that loads subcommands lazily and reports errors on one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of the subcommands in the order of use."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import and return the subcommand called `name`."""
        path = COMMANDS.get(name)
        if path is None:
            return None
        module, _, attribute = path.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Resolve a subcommand as click does; suggest the nearest name for an unknown one."""
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if near and "did you mean" not in error.message.lower():
                error.message += f" Did you mean '{near[0]}'?"
            raise

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, and remember whether errors are reported as JSON."""
        context.meta[_WANTS_JSON] = "--json" in args
        return super().parse_args(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Run a subcommand; turn its errors into one line and an exit code."""
        shown, warnings.showwarning = warnings.showwarning, show_warning
        try:
            return self._invoke(context)
        finally:
            warnings.showwarning = shown

    def _invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "tilesmith"
            text = f"{' '.join(error.format_message().split())} See: {command} --help"
            _fail(context, "error", text, "UsageError", USAGE)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            _fail(context, "", "interrupted", "KeyboardInterrupt", INTERRUPTED)
        except BrokenPipeError:
            # The reader of our output closed the pipe (`| head`). Python must not flush again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            context.exit(FAILED)
        except Exception as error:
            if os.environ.get("TILESMITH_TRACEBACK") == "full":
                raise
            kind = type(error).__name__
            is_expected = isinstance(error, TilesmithError | OSError | MemoryError)
            if is_expected and not isinstance(error, InternalError):
                _fail(context, "error", one_line(error), kind, FAILED)
            advice = "TILESMITH_TRACEBACK=full shows where, please report it"
            _fail(context, "internal error", f"{one_line(error)}; {advice}", kind, INTERNAL)


_WANTS_JSON = "tilesmith.wants_json"


def _fail(context: click.Context, word: str, text: str, kind: str, code: int) -> NoReturn:
    """Report an error on one line, and as JSON where it is asked for; end with an exit code."""
    click.echo(f"{word}: {text}" if word else text, err=True)
    if context.meta.get(_WANTS_JSON):
        print_json({"error": text, "kind": kind, "exit_code": code})
    context.exit(code)


@click.group(
    cls=Tilesmith,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="tilesmith")
def tilesmith() -> None:
    """Compile machine learning models to native code, run them, measure them, look inside.

    \b
    tilesmith compile model.onnx -o model.tsm
    tilesmith run model.tsm --input x.npy --output y.npy
    """
