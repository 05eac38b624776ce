"""Runs a case as `python case.py ...` would, and writes down what the golden harness returned.

    python shim.py --outcome OUT.json [--golden-data DIR] [--save-data] [--dump-args N] [--dep-gen]
                   [--runtime-dir DIR] [--dump-passes] [--after "OTHER.py [argument ...]"] -- case.py [argument ...]

This file runs under the stack's own interpreter, CPython 3.9 or later, with nothing but the standard library. It wraps
`golden.run` and `golden.run_jit` as soon as their module is imported. The settings above are put into every call, each
where the function's signature has a place for it. OUT.json is rewritten when a call begins and ends;
`read_harness_outcome` reads it. What the case prints, and its exit code, stay unchanged.

Each script of `--after` runs before the case, as another `__main__` of the same process. Its calls get no settings and
are not recorded. Only what is printed after `case_begins_line` belongs to the case.

This is one file because no module of ours may stand beside those that the case imports. From the top, it has the
process, the scripts before the case, the harness, its settings, the outcome, and the errors of outputs.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # This file's neighbours must not stand in for modules of the standard library, or of the case.
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
"""The outcome's form has this version. A reader refuses a version that it does not know."""
MAX_TEXT = 1 << 14
"""A text of the outcome has at most this many characters, so that a long message does not fill a store."""

HARNESS = "golden"
ENTRY_POINTS = ("run", "run_jit")
COMPARISON = "validate_golden"
"""This function of the harness compares outputs with expected outputs.

Its first two parameters are these, by name; it also has `rtol` and `atol`."""
CHUNK = 1 << 20
"""This many elements are measured at once, so that large tensors need little further memory."""

MAX_OUTPUTS = 64
"""The outcome holds measures of at most this many outputs. A harness with more would fill a store."""
RUNTIME_KEYS = {
    "dump_args": ("enable_dump_args", "enable_dump_tensor"),
    "dep_gen": ("enable_dep_gen",),
}
"""A setting has had these spellings in the runtime configuration, newest first."""


# The process: a script of the user's runs as if this file were not there.


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
            run_before(predecessor)
        flush_streams()
        outcome.begin_case()
        say_case_begins(path)
        harness.is_watching = True
    source = source_of_script(case)
    try:
        run_as_main(case, source, arguments)
    except SystemExit:
        raise
    except BaseException:
        hide_shim_frames()
        raise


def source_of_script(script: str) -> bytes:
    """Return the bytes of a script; exit as the interpreter does where it cannot be read."""
    path = full_path(script)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: can't open file {path!r}: {reason}", file=sys.stderr)
        raise SystemExit(2) from None


def full_path(script: str) -> str:
    """Return the absolute path of a script."""
    # The interpreter joins the two without changes. pathlib would drop a `./`, which the case could see.
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
    """Let the exception that ends the process show only the case's frames, whoever prints it."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        remove_shim_frames(error)
        show(kind, error, error.__traceback__)

    sys.excepthook = excepthook


def remove_shim_frames(error: BaseException) -> None:
    """Remove the shim's own frames from the traces of an exception, and of those that led to it."""
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
            # The import system hides its own frames, but not those that called `_watch`'s `exec_module`.
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        trace = trace.tb_next
    for index, entry in enumerate(kept):
        entry.tb_next = kept[index + 1] if index + 1 < len(kept) else None
    return kept[0] if kept else None


# What runs before the case: other scripts, whose state the case finds.


def run_before(words: list[str]) -> None:
    """Run a script with its arguments, and report how it ended.

    Only an interrupt, and the end of a process that it forked, propagate.
    """
    script, *arguments = words
    source = source_of_script(script)
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
    """Return the exit code that the process would have had. A message is printed as it would have been."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def say_case_begins(outcome: str) -> None:
    """Print the line before the case's own output to both streams, because they are read separately."""
    for descriptor in (1, 2):
        write_line(descriptor, case_begins_line(outcome))


def case_begins_line(outcome: str) -> str:
    """Return the line that is printed before the case begins. The name of the outcome's file makes it unique."""
    return f"{Path(outcome).name}: here the case begins"


def write_line(descriptor: int, text: str) -> None:
    """Write a line of its own, whatever scripts did to `sys.stdout` or left unfinished there."""
    with contextlib.suppress(OSError):
        os.write(descriptor, f"\n{text}\n".encode("utf-8", "replace"))


def flush_streams() -> None:
    """Flush what was printed so far, by Python and by C libraries."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            cast("Any", stream).flush()
    with contextlib.suppress(Exception):
        ctypes = importlib.import_module("ctypes")  # Not every interpreter has it.
        ctypes.CDLL(None).fflush(None)


# The harness: its entry points are wrapped once they have been imported.


class HarnessFinder:
    """A finder for `sys.meta_path` that wraps the harness's entry points, in whichever module they are."""

    def __init__(self, outcome: OutcomeFile, settings: dict[str, Any], *, is_watching: bool) -> None:
        self.is_watching = is_watching
        """Whether calls are the case's. Calls of scripts that run before it stay unchanged."""
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
        """Return a comparison that first records how large the errors are."""

        @functools.wraps(comparison)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            record = getattr(self._thread, "record", None)
            if record is not None:
                # If anything is odd about the tensors, the comparison is about to meet it and to report it.
                with contextlib.suppress(Exception):
                    self._outcome.update(record, {"measures": measures_of(comparison, args, kwargs)})
            return comparison(*args, **kwargs)

        return wrapper

    def _wrapper(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # One entry point may call the other. Only the outer call is recorded.
            if not self.is_watching or getattr(self._thread, "is_inside", False):
                return function(*args, **kwargs)
            arguments = arguments_of(function, args, kwargs)
            if arguments is None:
                # The function itself gives the best error where the arguments do not fit.
                return function(*args, **kwargs)
            arguments.apply(self._settings)
            self._thread.is_inside = True
            try:
                return self._call(name, function, arguments)
            finally:
                self._thread.is_inside = False

        return wrapper

    def _call(self, name: str, function: Callable[..., Any], arguments: Arguments) -> Any:
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
        self._outcome.update(record, {"finished": True, **facts_of(result)})
        return result


# The settings: each goes where a call of this version of the harness takes it.


def arguments_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments | None:
    """Return the arguments of a call; None if they do not fit the function."""
    try:
        return Arguments(function, inspect.signature(function).bind(*args, **kwargs))
    except TypeError:
        return None


class Arguments:
    """The arguments of one call, and where each setting went."""

    def __init__(self, function: Callable[..., Any], bound: inspect.BoundArguments) -> None:
        self._function = inspect.unwrap(function)
        self._parameters = bound.signature.parameters
        self.bound = bound
        self.applied: dict[str, Any] = {}
        self.replaced: dict[str, str] = {}
        self.not_applied: dict[str, str] = {}

    def apply(self, settings: dict[str, Any]) -> None:
        """Put each setting where this version of the harness takes it."""
        for setting, value in settings.items():
            if setting in RUNTIME_KEYS:
                self._set_in_runtime(setting, value)
            elif setting == "dump_passes":
                self._set_inside(setting, "dump_passes", value, parameter="compile_cfg", field="compile")
            else:
                self._set(setting, value)

    @property
    def are_validated(self) -> bool:
        """Return whether the call has something to compare its outputs with, and does more than compile."""
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
        """Set a key of the configuration that is `parameter`, or was once `field` of a `config`."""
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
        self.applied[setting] = value
        if old is not None and old != value and text_of(old) != value:
            self.replaced[setting] = text_of(old)

    def _refuse(self, setting: str, reason: str) -> None:
        self.not_applied[setting] = reason

    def _spelling(self, spellings: tuple[str, ...], runtime: Any) -> str | None:
        """Return the spelling that the case uses, or the runtime accepts, or the harness's source contains."""
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
    """Return the parameters of `execute_compiled`, which gets the runtime configuration from the harness.

    The harness imports it into its module, or only when it is called.
    """
    try:
        execute = function.__globals__.get("execute_compiled")
        if execute is None:
            execute = importlib.import_module("pypto.runtime").execute_compiled
        return inspect.signature(execute).parameters
    except Exception:
        # If anything is wrong with the runtime, the harness is about to meet it and to report it.
        return ()


def source_of(function: Callable[..., Any]) -> str:
    """Return the source text of the module that defines a function; empty if there is none to read."""
    try:
        return inspect.getsource(sys.modules[function.__module__])
    except (KeyError, OSError, TypeError):
        return ""


# The outcome: what is written of each call.


class OutcomeFile:
    """The calls so far, and the file that records them. Forked children of the case leave it alone."""

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
        """Record when the case begins after other scripts, by the clock of files.

        Where there is no room for that, the run cannot be separated from theirs, and ends here.
        """
        with self._lock:
            self._write()
            self._began = self._path.stat().st_mtime_ns
            self._write()

    def begin(self, record: dict[str, Any]) -> None:
        """Add a call, and write the file."""
        with self._lock:
            self._calls.append(record)
            self._save()

    def update(self, record: dict[str, Any], changes: dict[str, Any]) -> None:
        """Change the record of a call, and write the file."""
        with self._lock:
            record.update(changes)
            self._save()

    def _save(self) -> None:
        # The case must not notice a full disk. The file then keeps its last state, with this call unfinished.
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
    """Return bounded text that can be encoded, from an object whose own `__str__` may be broken."""
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"
    return text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def facts_of(result: Any) -> dict[str, Any]:
    """Return what a `RunResult` contains. Older ones lack fields."""
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


def measures_of(
    comparison: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Return the errors of each output that a comparison is given."""
    bound = inspect.signature(comparison).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    actual, expected = list(given.values())[:2]
    return {
        text_of(name)[:256]: errors_of(actual[name], expected[name], given["rtol"], given["atol"])
        for name in list(actual)[:MAX_OUTPUTS]
    }


def errors_of(actual: Any, expected: Any, rtol: float, atol: float) -> dict[str, float]:
    """Return the errors of a torch tensor against the expected one.

    - `not_finite`: the share of elements that differ while one of the two is not finite.
    - `beyond_tolerance`: that share plus the share with |actual - expected| > atol + rtol |expected|.
    - `relative_l2`: |actual - expected|_2 / |expected|_2. Left out where expected is all zeros.
    - `times_tolerance`: the largest |actual - expected| / (atol + rtol |expected|). Left out where that has no bound.

    The last two are given only where `not_finite` is 0.
    """
    actual, expected = actual.detach().cpu().reshape(-1), expected.detach().cpu().reshape(-1)
    total = actual.numel()
    if not total or total != expected.numel() or actual.is_complex():
        return {}
    squares, norm, beyond, odd, worst = 0.0, 0.0, 0, 0, 0.0
    for start in range(0, total, CHUNK):
        ours = actual[start : start + CHUNK].double()
        theirs = expected[start : start + CHUNK].double()
        difference = (ours - theirs).abs()
        differ = ours != theirs
        finite = difference.isfinite()
        odd += int((differ & ~finite).sum())
        off = difference[differ & finite]
        tolerance = (atol + rtol * theirs.abs())[differ & finite]
        beyond += int((off > tolerance).sum())
        squares += float(off.square().sum())
        if off.numel():
            worst = max(worst, float((off / tolerance).max()))
        norm += float(theirs[theirs.isfinite()].square().sum())
    errors = {"beyond_tolerance": (beyond + odd) / total}
    if odd:
        errors["not_finite"] = odd / total
        return errors
    if norm > 0 and math.isfinite(squares / norm):
        errors["relative_l2"] = math.sqrt(squares / norm)
    if math.isfinite(worst):
        errors["times_tolerance"] = worst
    return errors


if __name__ == "__main__":
    main()
