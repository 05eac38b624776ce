"""Runs a case as `python case.py ...` would, and writes down what the golden harness returned.

    python shim.py --outcome OUT.json [--golden-data DIR] [--save-data] [--dump-args N] [--dep-gen]
                   [--runtime-dir DIR] [--dump-passes] [--after "OTHER.py [argument ...]"] -- case.py [argument ...]

This file runs under the stack's own interpreter, CPython 3.9 or later, with nothing but the standard library. It wraps
`golden.run` and `golden.run_jit` as soon as their module is imported. Each call gets the settings above for which its
version of the harness has a place. OUT.json is rewritten when a call begins and ends; `read_harness_outcome` reads it.
The case's output and exit code stay unchanged.

Each script of `--after` runs before the case, as another `__main__` of the same process. Its calls get no settings and
are not recorded. The case's own output follows the line of `case_begins_line`.

This is one file, so that no module of ours hides one that the case imports. From the top, it has the process, the
scripts before the case, the harness, its settings, the outcome, and the errors of outputs.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # Files in this folder must not be imported in place of the standard library's modules, or the case's.
    del sys.path[0]

import argparse
import contextlib
import dataclasses
import functools
import importlib
import importlib.machinery
import inspect
import json
import math
import os
import platform
import shlex
import threading
import types
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, cast

SCHEMA_VERSION = 1
"""The outcome has this version. A reader refuses a version that it does not know."""
MAX_TEXT = 1 << 14
"""A text of the outcome has at most this many characters, so that a long message does not fill a store."""

HARNESS = "golden"
ENTRY_POINTS = ("run", "run_jit")
COMPARISON = "validate_golden"
"""This function of the harness compares outputs with expected ones.

Its first two parameters are mappings of the two by name. It also has `rtol` and `atol`."""
CHUNK = 1 << 20
"""The errors of this many elements are computed at once, so that large tensors need little further memory."""

MAX_OUTPUTS = 64
"""The outcome has the errors of at most this many outputs. A harness with more would fill a store."""
RUNTIME_KEYS = {
    "dump_args": ("enable_dump_args", "enable_dump_tensor"),
    "dep_gen": ("enable_dep_gen",),
}
"""The runtime configuration has had these spellings of a setting, newest first."""


# The process: the user's script runs as if this file were not there.


def main() -> None:
    """Install the shim and run the case's script in this process, as Python itself would."""
    parser = argparse.ArgumentParser(
        prog="shim.py", usage=(__doc__ or "").split("\n\n")[1], allow_abbrev=False
    )
    parser.add_argument("--outcome", required=True)
    parser.add_argument("--golden-data")
    parser.add_argument("--save-data", action="store_true", default=None)
    parser.add_argument("--dump-args", type=int, choices=range(4))
    parser.add_argument("--dep-gen", action="store_true", default=None)
    parser.add_argument("--runtime-dir")
    parser.add_argument("--dump-passes", action="store_true", default=None)
    parser.add_argument("--after", action="append", default=[], type=shlex.split)
    # argparse's own handling of `--` would also take one that belongs to the case.
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = vars(parser.parse_args(sys.argv[1:end]))
    case, *arguments = sys.argv[end + 1 :] or parser.error("expected `-- case.py`, found no case")
    path, predecessors = options.pop("outcome"), options.pop("after")
    outcome = OutcomeFile(path)
    try:
        outcome.create()
    except OSError as error:
        parser.error(f"--outcome {path}: {error.strerror}; name a file in a folder that can be written")
    settings = {name: value for name, value in options.items() if value is not None}
    harness = HarnessFinder(outcome, settings, is_watching=not predecessors)
    sys.meta_path.insert(0, harness)
    if predecessors:
        for predecessor in predecessors:
            run_predecessor(predecessor)
        flush_streams()
        outcome.begin_case()
        # The two streams are read separately, so each gets the line.
        for descriptor in (1, 2):
            write_line(descriptor, case_begins_line(path))
        harness.is_watching = True
    source = read_script(case)
    try:
        run_as_main(case, source, arguments)
    except SystemExit:
        raise
    except BaseException:
        hide_shim_frames()
        raise


def read_script(script: str) -> bytes:
    """Return the bytes of a script. Exit as the interpreter does if it cannot be read."""
    path = full_path(script)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: can't open file {path!r}: {reason}", file=sys.stderr)
        raise SystemExit(2) from None


def full_path(script: str) -> str:
    """Return the absolute path of a script, as the interpreter makes it."""
    # pathlib would drop a `./`, which the case could see.
    return script if script.startswith("/") else f"{Path.cwd()}/{script}"


def run_as_main(script: str, source: bytes, arguments: list[str]) -> None:
    """Execute a script in a new `__main__`. `sys.argv` and `sys.path` are what the interpreter would set."""
    path = full_path(script)
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        __file__=path,
        __builtins__=sys.modules["builtins"],
    )
    if sys.version_info < (3, 14):
        main_module.__dict__.update(__annotations__={}, __cached__=None)
    sys.modules["__main__"] = main_module
    sys.argv = [script, *arguments]
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, folder_of(path))
    exec(compile(source, path, "exec", dont_inherit=True), main_module.__dict__)


def folder_of(path: str) -> str:
    """Return the folder in which a script's imports are looked for first."""
    return str(Path(path).resolve().parent)


def hide_shim_frames() -> None:
    """Let the exception that ends the process show only the case's frames, also with the case's own excepthook."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        remove_shim_frames(error)
        show(kind, error, error.__traceback__)

    sys.excepthook = excepthook


def remove_shim_frames(error: BaseException) -> None:
    """Remove the shim's own frames from the traces of an exception, of its cause and of its context."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = strip_shim_frames(current.__traceback__)
            pending += [current.__cause__, current.__context__]


def strip_shim_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return the trace without the shim's own frames."""
    this_file = strip_shim_frames.__code__.co_filename
    kept: list[types.TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != this_file:
            kept.append(trace)
        else:
            # The import system does not hide its frames that called the `exec_module` of `HarnessFinder`.
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        trace = trace.tb_next
    for index, entry in enumerate(kept):
        entry.tb_next = kept[index + 1] if index + 1 < len(kept) else None
    return kept[0] if kept else None


# The scripts before the case, whose state the case finds.


def run_predecessor(words: list[str]) -> None:
    """Run a script with its arguments, and report its end.

    An interrupt propagates, and so does the end of a process that the script forked.
    """
    script, *arguments = words
    source = read_script(script)
    process = os.getpid()
    ended = "exit code 0"
    try:
        run_as_main(script, source, arguments)
    except SystemExit as error:
        if os.getpid() != process:
            raise
        ended = f"exit code {exit_code(error)}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        remove_shim_frames(error)
        sys.excepthook(type(error), error, error.__traceback__)
        ended = type(error).__name__
        if os.getpid() != process:
            raise SystemExit(1) from None
    if os.getpid() != process:
        raise SystemExit(0)
    with contextlib.suppress(ValueError):
        sys.path.remove(folder_of(full_path(script)))
    flush_streams()
    write_line(2, f"{script}: ran before the case, and ended with {ended}")


def exit_code(error: SystemExit) -> int:
    """Return the exit code with which the interpreter would end, and print the message that it would print."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def case_begins_line(outcome: str) -> str:
    """Return the line that the shim prints before the case begins. The name of the outcome's file makes it unique."""
    return f"{Path(outcome).name}: here the case begins"


def write_line(descriptor: int, text: str) -> None:
    """Write a line to a descriptor, whatever scripts did to `sys.stdout`. It ends a line that was left unfinished."""
    with contextlib.suppress(OSError):
        os.write(descriptor, f"\n{text}\n".encode("utf-8", "replace"))


def flush_streams() -> None:
    """Flush the streams of Python and of C libraries."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            cast("Any", stream).flush()
    with contextlib.suppress(Exception):
        ctypes = importlib.import_module("ctypes")  # Not every interpreter has it.
        ctypes.CDLL(None).fflush(None)


# The harness: its entry points are wrapped once they have been imported.


class HarnessFinder:
    """A finder for `sys.meta_path` that wraps the harness's entry points in each of the harness's modules."""

    def __init__(self, outcome: OutcomeFile, settings: dict[str, Any], *, is_watching: bool) -> None:
        self.is_watching = is_watching
        """Whether calls are changed and recorded. It is false while a script before the case runs."""
        self._outcome = outcome
        self._settings = settings
        self._thread = threading.local()
        self._wrappers: set[Callable[..., Any]] = set()

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Let the other finders find a module of the harness, and wrap its entry points once it has run."""
        if name != HARNESS and not name.startswith(HARNESS + "."):
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if finder is not self and find_spec is not None else None
            if spec is not None:
                self._watch(spec.loader, name)
                return spec
        return None

    def _watch(self, loader: Any, name: str) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            if module.__name__ == name:
                self._wrap_entry_points(module)

        loader.exec_module = exec_module

    def _wrap_entry_points(self, module: types.ModuleType) -> None:
        for name in ENTRY_POINTS:
            function = getattr(module, name, None)
            if isinstance(function, types.FunctionType) and function not in self._wrappers:
                wrapper = self._wrapper(name, function)
                self._wrappers.add(wrapper)
                setattr(module, name, wrapper)
        comparison = getattr(module, COMPARISON, None)
        if isinstance(comparison, types.FunctionType) and comparison not in self._wrappers:
            wrapper = self._measuring_wrapper(comparison)
            self._wrappers.add(wrapper)
            setattr(module, COMPARISON, wrapper)

    def _measuring_wrapper(self, comparison: Callable[..., Any]) -> Callable[..., Any]:
        """Return a comparison that first records the errors of the outputs."""

        @functools.wraps(comparison)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            record = getattr(self._thread, "record", None)
            if record is not None:
                # If anything is wrong with the tensors, the comparison will report it.
                with contextlib.suppress(Exception):
                    self._outcome.update(record, {"measures": output_errors(comparison, args, kwargs)})
            return comparison(*args, **kwargs)

        return wrapper

    def _wrapper(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return an entry point that gets the settings and records its calls."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # One entry point may call the other. Only the outer call is recorded.
            if not self.is_watching or getattr(self._thread, "is_inside", False):
                return function(*args, **kwargs)
            arguments = arguments_of(function, args, kwargs)
            if arguments is None:
                return function(*args, **kwargs)  # It raises the error of arguments that do not fit.
            arguments.apply(self._settings)
            self._thread.is_inside = True
            try:
                return self._call(name, function, arguments)
            finally:
                self._thread.is_inside = False

        return wrapper

    def _call(self, name: str, function: Callable[..., Any], arguments: Arguments) -> Any:
        """Call an entry point, and record the call when it begins and ends."""
        record: dict[str, Any] = {
            "function": name,
            "finished": False,
            "passed": None,
            "validated": arguments.are_validated,
            "error": None,
            "work_dir": None,
            "execution_time": None,
            "exception": None,
            "applied": arguments.applied,
            "replaced": arguments.replaced,
            "not_applied": arguments.not_applied,
        }
        self._outcome.begin(record)
        self._thread.record = record
        try:
            result = function(*arguments.bound.args, **arguments.bound.kwargs)
        except BaseException as error:
            exception = {"type": type(error).__name__[:256], "message": text_of(error)}
            self._outcome.update(record, {"finished": True, "exception": exception})
            raise
        self._outcome.update(record, {"finished": True, **result_fields(result)})
        return result


# The settings, which each version of the harness takes in its own place.


def arguments_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments | None:
    """Return the arguments of a call; None if they do not fit the function."""
    try:
        return Arguments(function, inspect.signature(function).bind(*args, **kwargs))
    except TypeError:
        return None


class Arguments:
    """The arguments of one call, and what became of each setting: applied, replaced another value, not applied."""

    def __init__(self, function: Callable[..., Any], bound: inspect.BoundArguments) -> None:
        self._function = inspect.unwrap(function)
        self._parameters = bound.signature.parameters
        self.bound = bound
        self.applied: dict[str, Any] = {}
        self.replaced: dict[str, str] = {}
        self.not_applied: dict[str, str] = {}

    def apply(self, settings: dict[str, Any]) -> None:
        """Put each setting into the arguments, where this version of the harness takes it."""
        for setting, value in settings.items():
            if setting in RUNTIME_KEYS:
                self._set_in_runtime(setting, value)
            elif setting == "dump_passes":
                self._set_inside(setting, "dump_passes", value, parameter="compile_cfg", field="compile")
            else:
                self._set(setting, value)

    @property
    def are_validated(self) -> bool:
        """Return whether the call runs the program and compares its outputs with expected ones."""
        given = self.bound.arguments
        compile_only = given.get("compile_only") or getattr(given.get("config"), "compile_only", False)
        has_golden = given.get("golden_fn") is not None or given.get("golden_data") is not None
        return has_golden and not compile_only

    def _set(self, name: str, value: Any) -> None:
        if name in self._parameters:
            self._note(name, self.bound.arguments.get(name), value)
            self.bound.arguments[name] = value
        else:
            self._refuse(name, f"golden.{self._function.__name__} has no parameter {name!r} at this revision")

    def _set_in_runtime(self, setting: str, value: Any) -> None:
        given = self.bound.arguments
        runtime = given.get("runtime_cfg") or getattr(given.get("config"), "runtime", None)
        key = self._spelling(RUNTIME_KEYS[setting], runtime)
        if key is None:
            spellings = " or ".join(RUNTIME_KEYS[setting])
            self._refuse(setting, f"neither the harness nor the runtime knows {spellings} at this revision")
        else:
            self._set_inside(setting, key, value, parameter="runtime_cfg", field="runtime")

    def _set_inside(self, setting: str, key: str, value: Any, *, parameter: str, field: str) -> None:
        """Set a key of the configuration in `parameter`. In old versions it is the `field` of the argument `config`."""
        given = self.bound.arguments
        try:
            if parameter in self._parameters:
                old, given[parameter] = set_key(given.get(parameter), key, value)
            elif "config" in self._parameters:
                config = given.get("config") or self._function.__globals__["RunConfig"]()
                old, inner = set_key(getattr(config, field), key, value)
                given["config"] = dataclasses.replace(config, **{field: inner})
            else:
                raise TypeError(f"no parameter {parameter!r} at this revision")
        except (AttributeError, KeyError, TypeError) as error:
            self._refuse(setting, f"golden.{self._function.__name__}: {text_of(error)}")
        else:
            self._note(setting, old, value)

    def _note(self, setting: str, old: Any, value: Any) -> None:
        """Note that a setting was applied, and the value that it replaced."""
        self.applied[setting] = value
        if old is not None and old != value and text_of(old) != value:
            self.replaced[setting] = text_of(old)

    def _refuse(self, setting: str, reason: str) -> None:
        self.not_applied[setting] = reason

    def _spelling(self, spellings: tuple[str, ...], runtime: Any) -> str | None:
        """Return the first spelling that the case uses, or else that the runtime accepts or the harness contains."""
        for find_names in (
            functools.partial(names_in, runtime),
            functools.partial(runtime_parameters, self._function),
            functools.partial(source_of, self._function),
        ):
            names = find_names()
            for spelling in spellings:
                if spelling in names:
                    return spelling
        return None


def set_key(configuration: Any, key: str, value: Any) -> tuple[Any, Any]:
    """Return the old value of `key`, and a copy of the configuration in which it is `value`.

    The configuration is a mapping (None: an empty one) or a dataclass.
    """
    if configuration is None or isinstance(configuration, dict):
        entries = cast("dict[str, Any]", configuration or {})
        return entries.get(key), {**entries, key: value}
    return getattr(configuration, key), dataclasses.replace(configuration, **{key: value})


def names_in(configuration: Any) -> Container[str]:
    """Return the keys of a mapping, or the fields of a dataclass; nothing for None."""
    if dataclasses.is_dataclass(configuration):
        return {field.name for field in dataclasses.fields(configuration)}
    return configuration or ()


def runtime_parameters(function: Callable[..., Any]) -> Container[str]:
    """Return the parameters of `execute_compiled`, to which the harness passes the runtime configuration."""
    try:
        execute = function.__globals__.get("execute_compiled")
        if execute is None:  # Some harnesses import it only when they call it.
            execute = importlib.import_module("pypto.runtime").execute_compiled
        return inspect.signature(execute).parameters
    except Exception:
        # If anything is wrong with the runtime, the harness will report it.
        return ()


def source_of(function: Callable[..., Any]) -> str:
    """Return the source text of the module that defines a function; empty if it cannot be read."""
    try:
        return inspect.getsource(sys.modules[function.__module__])
    except (KeyError, OSError, TypeError):
        return ""


# The outcome: a record of each call.


class OutcomeFile:
    """The records of the calls so far, and the file that holds them. Forked children of the case do not write it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []
        self._began: int | None = None

    def create(self) -> None:
        """Write the file without calls. Raises `OSError` if that cannot be done."""
        with self._lock:
            self._write()

    def begin_case(self) -> None:
        """Record when the case begins after other scripts, by the clock of the file system. Raises `OSError`."""
        with self._lock:
            self._write()
            self._began = self._path.stat().st_mtime_ns
            self._write()

    def begin(self, record: dict[str, Any]) -> None:
        """Add the record of a call, and write the file."""
        with self._lock:
            self._calls.append(record)
            self._save()

    def update(self, record: dict[str, Any], changes: dict[str, Any]) -> None:
        """Change the record of a call, and write the file."""
        with self._lock:
            record.update(changes)
            self._save()

    def _save(self) -> None:
        # The case must not notice a full disk. Then the file stays as it was before, with this call unfinished.
        with contextlib.suppress(OSError):
            if os.getpid() == self._pid:
                self._write()

    def _write(self) -> None:
        interpreter = {
            "executable": text_of(sys.executable),
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
        }
        document = {
            "schema_version": SCHEMA_VERSION,
            "interpreter": interpreter,
            "began": self._began,
            "calls": self._calls,
        }
        partial = self._path.with_name(f"{self._path.name}.{self._pid}.partial")
        try:
            partial.write_text(json.dumps(document, allow_nan=False), encoding="ascii")
            partial.replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise


def text_of(value: object) -> str:
    """Return the text of an object, bounded and without lone surrogates. Its `__str__` may fail."""
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"
    return text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def result_fields(result: Any) -> dict[str, Any]:
    """Return the fields of a `RunResult`; None for those that an older harness does not have."""
    passed = getattr(result, "passed", None)
    error = getattr(result, "error", None)
    work_dir = getattr(result, "work_dir", None)
    seconds: Any = getattr(result, "execution_time", None)
    is_time = isinstance(seconds, (int, float)) and math.isfinite(seconds)
    return {
        "passed": None if passed is None else bool(passed),
        "error": None if error is None else text_of(error),
        "work_dir": None if work_dir is None else text_of(Path(text_of(work_dir)).absolute()),
        "execution_time": float(seconds) if is_time else None,
    }


# The errors of outputs.


def output_errors(
    comparison: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Return the errors of each output in the arguments of a comparison."""
    bound = inspect.signature(comparison).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    actual, expected = list(given.values())[:2]
    return {
        text_of(name)[:256]: tensor_errors(actual[name], expected[name], given["rtol"], given["atol"])
        for name in list(actual)[:MAX_OUTPUTS]
    }


def tensor_errors(actual: Any, expected: Any, rtol: float, atol: float) -> dict[str, float]:
    """Return the errors of a torch tensor against the expected one.

    - `not_finite`: the share of elements that differ while one of the two is not finite. As in `torch.allclose`, NaN
      differs from NaN.
    - `beyond_tolerance`: that share plus the share with |actual - expected| > atol + rtol |expected|.
    - `relative_l2`: |actual - expected|_2 / |expected|_2. Left out where expected is all zeros.
    - `times_tolerance`: the largest |actual - expected| / (atol + rtol |expected|). Left out where it is infinite.

    The last two are given only where `not_finite` is 0.
    """
    actual, expected = actual.detach().cpu().reshape(-1), expected.detach().cpu().reshape(-1)
    total = actual.numel()
    if not total or total != expected.numel() or actual.is_complex():
        return {}
    squares, norm, beyond, not_finite, worst = 0.0, 0.0, 0, 0, 0.0
    for start in range(0, total, CHUNK):
        found = actual[start : start + CHUNK].double()
        wanted = expected[start : start + CHUNK].double()
        difference = (found - wanted).abs()
        differs, is_finite = found != wanted, difference.isfinite()
        not_finite += int((differs & ~is_finite).sum())
        sizes = difference[differs & is_finite]
        tolerance = (atol + rtol * wanted.abs())[differs & is_finite]
        beyond += int((sizes > tolerance).sum())
        squares += float(sizes.square().sum())
        if sizes.numel():
            worst = max(worst, float((sizes / tolerance).max()))
        norm += float(wanted[wanted.isfinite()].square().sum())
    errors = {"beyond_tolerance": (beyond + not_finite) / total}
    if not_finite:
        errors["not_finite"] = not_finite / total
        return errors
    if norm > 0 and math.isfinite(squares / norm):
        errors["relative_l2"] = math.sqrt(squares / norm)
    if math.isfinite(worst):
        errors["times_tolerance"] = worst
    return errors


if __name__ == "__main__":
    main()
