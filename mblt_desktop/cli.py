"""The command line: the window without arguments, or one subcommand.

Standard output carries results only; errors are one line with a remedy on standard error; the exit status is
0 only on success.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import errno
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from mblt_desktop import __version__
from mblt_desktop.log import to_stderr
from mblt_desktop.session import Session
from runtime.errors import MbltError, storage_error, to_info

COMMANDS = ("doctor", "models", "chat", "transcribe", "trace", "demo")

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing results to a file may end with."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_output()
    former = signal.signal(signal.SIGTERM, _terminate)
    try:
        status = _run(arguments)
    finally:
        signal.signal(signal.SIGTERM, former)
    if Session.left_behind:
        # The interpreter's own end would meet a thread that hangs in native code. All is written.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(status)
    return status


class _TerminatedError(KeyboardInterrupt):
    """Somebody ends the program: as with Ctrl+C, what is half done is taken back first."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _TerminatedError


def _run(arguments: list[str]) -> int:
    try:
        args = _parse(arguments)
        with to_stderr(verbose=args.verbose):
            status = int(args.run(args))
            sys.stdout.flush()  # what cannot be written is told here, not by Python at its end
            return status
    except MbltError as error:
        print(f"error: {error.info.sentence()}", file=sys.stderr)  # noqa: T201 - the command line's output
        return 1
    except _TerminatedError:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone
        _drop_output()
        return 1
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            return _unexpected(error)
        _drop_output()
        info = storage_error(error, "standard output", unharmed="Models and settings are unharmed.").info
        print(f"error: {info.sentence()}", file=sys.stderr)  # noqa: T201
        return 1
    except Exception as error:  # noqa: BLE001 - the top of the program: no traceback for the user
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    info = to_info(error)
    print(f"error: {info.sentence()}", file=sys.stderr)  # noqa: T201
    if os.environ.get("MBLT_DESKTOP_DEBUG"):
        print(info.detail, file=sys.stderr)  # noqa: T201
    return 1


def _drop_output() -> None:
    """Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_output() -> None:
    """Let every text be written: to a closed stream, and to a terminal without the letters it needs.

    Those are written as JSON escapes, which also keeps a JSON document whole.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json-escapes")


def _as_json_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("json-escapes", _as_json_escapes)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Parse for the named subcommand, or for the window when there is none."""
    named = arguments[0] if arguments else ""
    if named in COMMANDS or named in ("-h", "--help", "--version"):
        return _command_parser().parse_args(arguments)
    return _window_parser().parse_args(arguments)


def _command_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mblt-desktop",
        description="Local chat, image understanding and transcription on Mobilint NPUs.",
        epilog="Without a command it opens the window: mblt-desktop [FILES...].",
    )
    parser.add_argument("--version", action="version", version=f"mblt-desktop {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"mblt_desktop.commands.{name}").add_parser(subparsers)
        _add_verbose(subparsers.choices[name])
    return parser


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="show the log on standard error")


def _window_parser() -> argparse.ArgumentParser:
    from mblt_desktop.commands import window

    parser = argparse.ArgumentParser(
        prog="mblt-desktop",
        description="Open the window.",
        epilog="Commands: " + ", ".join(COMMANDS) + ". Try mblt-desktop --help.",
    )
    window.add_arguments(parser)
    _add_verbose(parser)
    return parser
