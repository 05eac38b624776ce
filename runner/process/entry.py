"""The entry points of the programs. From their first line on, Ctrl-C ends them with exit code 130.

Other modules are imported after that line, because a busy machine may take long to find even a small one.
"""

import codecs
import gc
import io
import os
import signal
import sys

INTERRUPTED = 130
"""An interrupted program ends with this exit code: 128 plus the number of SIGINT, 2."""

NOTHING_BEGUN = "interrupted before anything had begun: nothing was run or kept; ask again"
"""A program prints this if it was interrupted before its work began."""
_NOTHING_BEGUN_DOCUMENT = (
    f'{{"schema_version": 1, "error": {{"message": "{NOTHING_BEGUN}", "exit_code": {INTERRUPTED}}}}}\n'
)

_COLLECTION_THRESHOLDS = 50_000, 20, 100
"""Python looks for garbage this rarely. Modules, and the commits of a long range, are millions of objects that last."""


def bisect_precision() -> None:
    """Run the program `bisect-precision`."""
    _start("precision_bisect.bisect.cli")


def reduce() -> None:
    """Run the program `reduce`."""
    _start("precision_bisect.reduce.reduce_cli")


def diff_tensors() -> None:
    """Run the program `diff-tensors`."""
    _start("precision_bisect.runner.compare.diff_cli")


def _print_any_text() -> None:
    """Let the standard streams print what their encoding lacks as `\\uXXXX`, which is valid in JSON, too."""
    codecs.register_error("json", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json")


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(text[at : at + 2]) for at in range(0, len(text), 2))
    return "".join(f"\\u{unit:04x}" for unit in units), error.end


def asks_json(words: list[str]) -> bool:
    """Return whether `--json` is among a program's words. The words behind `--` are those of another command."""
    return "--json" in words[: words.index("--") if "--" in words else None]


def exit_at_once(_number: int, _frame: object) -> None:
    """Handle SIGINT while there is nothing to undo: print `NOTHING_BEGUN` and end the process."""
    try:
        os.write(2, f"{NOTHING_BEGUN}\n".encode())
        if asks_json(sys.argv):
            os.write(1, _NOTHING_BEGUN_DOCUMENT.encode())
    finally:
        os._exit(INTERRUPTED)


def _start(module: str) -> None:
    """Run the program of a module, which is given by name because it belongs to a layer above this one."""
    # A shell that starts the program in the background makes it ignore SIGINT, and then it must go on ignoring it.
    handles_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupts:
        signal.signal(signal.SIGINT, exit_at_once)
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    from .signals import run_program

    _print_any_text()
    run_program(module, handles_interrupts=handles_interrupts)
