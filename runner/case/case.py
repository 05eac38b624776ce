"""A case: its script, its options at a commit, the command that runs it, and the data that it runs on.

A perturbation is a change of a case's surroundings that may make a flaky failure certain. The name of a run's
perturbation is kept beside the run's revisions.

Golden data are frozen: the same inputs and expected outputs for every probe of a bisection. They are kept by content: a
folder is named by the SHA-256 of its manifest, and is checked before every use."""

import contextlib
import hashlib
import importlib
import json
import os
import re
import shlex
import shutil
import stat
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from filelock import FileLock

from ...store.durable_files import make_folder, sync, sync_tree
from ..errors import UsageError, UserError
from ..stack import Perturbation, Stack, fill
from .shim import case_begins_line

_SHIM = Path(__file__).with_name("shim.py")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@dataclass(frozen=True, kw_only=True)
class CaseName:
    """The value of `--case` or `--after`: a script of the case repository, and its own arguments."""

    path: PurePosixPath
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, stack: Stack, *, option: str = "--case") -> "CaseName":
        """Parse the option's text. An absolute path inside the user's checkout means that file at the tested commit.

        Raises:
            UsageError: there is no script, or its path leaves the case repository.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{option} {text}: expected a script and perhaps arguments: {error}") from error
        if not words:
            raise UsageError(f"{option}: expected a script and perhaps arguments, found nothing")
        root = stack.repositories[stack.case.repository].path
        path = Path(words[0])
        if path.is_absolute() and (path.parent.resolve() / path.name).is_relative_to(root):
            path = (path.parent.resolve() / path.name).relative_to(root)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(f"{option} {words[0]}: expected a path inside {root}")
        return cls(path=PurePosixPath(path), arguments=tuple(words[1:]))

    def __str__(self) -> str:
        return shlex.join((str(self.path), *self.arguments))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run of a case does in addition to running."""

    golden_data: Path | None = None
    save_data: bool = False
    dump_passes: bool = False
    dump_level: int = 0
    dep_gen: bool = False
    runtime_dir: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CaseCommand:
    """A command line, and the options that neither the case nor the shim accepts."""

    argv: tuple[str, ...]
    missing: tuple[str, ...]
    begins: str | None = None
    """The line that is printed before the case's own output, where other scripts run before the case."""


def options_in_help(text: str) -> frozenset[str]:
    """Return the long options that a help text names.

    >>> sorted(options_in_help("  -d D, --device D\\n  --dump-args [N]  not --dump"))
    ['--device', '--dump', '--dump-args']
    """
    return frozenset(_OPTION.findall(text))


def case_command(
    stack: Stack,
    case: CaseName | None,
    options: RunOptions,
    *,
    offered: frozenset[str],
    outcome: Path,
    values: Mapping[str, str],
    in_front: Sequence[str] = (),
) -> CaseCommand:
    """Return the command that runs a case.

    An option that the case offers at this commit goes to the case, in its spelling there. The others go to the shim,
    where the case runs under one. `values` fills the placeholders of the stack file. A script that runs before the case
    gets the words of the stack's command and its own arguments, but none of the options. `in_front` comes before all
    other words.
    """
    shim: list[str] = []
    own: list[str] = []
    missing: list[str] = []
    for spellings, shim_option, value in _requested_options(stack, options):
        spelling = next((s for s in spellings if s in offered), None)
        if spelling is not None:
            own.extend((spelling, *value))
        elif stack.case.harness:
            shim.extend((shim_option, *value))
        else:
            missing.append(shim_option)
    script = [values["case"]]
    if stack.case.harness:
        before = [
            word for each in predecessors(stack) for word in ("--after", _words_of(each, stack, values))
        ]
        script = [str(_SHIM), "--outcome", str(outcome), *shim, *before, "--", values["case"]]
    argv = [*in_front]
    for word in stack.case.command:
        argv.extend(script if word == "{case}" else [fill(word, values)])
    return CaseCommand(
        argv=(*argv, *(case.arguments if case else ()), *own),
        missing=tuple(missing),
        begins=case_begins_line(str(outcome)) if stack.case.after else None,
    )


def predecessors(stack: Stack) -> tuple[CaseName, ...]:
    """Return the scripts that run before the case, in its process.

    Raises `UsageError` where one is not a script of the case repository.
    """
    return tuple(CaseName.parse(text, stack, option="--after") for text in stack.case.after)


def add_predecessors(stack: Stack, texts: Sequence[str]) -> Stack:
    """Return the stack with these scripts run before its case, after those that it has. Raises `UsageError`."""
    if not texts:
        return stack
    if not stack.case.harness:
        raise UsageError(
            f"--after {texts[0]}: expected a case that runs under the harness's shim (case.harness), found none in "
            f"stack {stack.name}; leave --after out, or let the case's own script run it first"
        )
    named = tuple(str(CaseName.parse(text, stack, option="--after")) for text in texts)
    case = stack.case.model_copy(update={"after": (*stack.case.after, *named)})
    return stack.model_copy(update={"case": case})


def drop_predecessors(stack: Stack) -> Stack:
    """Return the stack with nothing run before its case."""
    return stack.model_copy(update={"case": stack.case.model_copy(update={"after": ()})})


def _words_of(predecessor: CaseName, stack: Stack, values: Mapping[str, str]) -> str:
    """Return the command line of a script that runs before the case.

    It has the words that follow the case's own script in the stack's command.
    """
    command = stack.case.command
    shared = [fill(word, values) for word in command[command.index("{case}") + 1 :]]
    path = str(PurePosixPath(values[stack.case.repository]) / predecessor.path)
    return shlex.join((path, *shared, *predecessor.arguments))


def _requested_options(stack: Stack, options: RunOptions) -> list[tuple[Sequence[str], str, tuple[str, ...]]]:
    """Return each requested option: the case's spellings, the shim's spelling, and its value."""
    flags = stack.case.flags
    wanted: list[tuple[Sequence[str], str, tuple[str, ...]]] = []
    if options.golden_data is not None:
        wanted.append((flags.golden_data, "--golden-data", (str(options.golden_data),)))
    if options.save_data:
        wanted.append((flags.save_data, "--save-data", ()))
    if options.dump_passes:
        wanted.append((flags.dump_passes, "--dump-passes", ()))
    if options.dump_level:
        wanted.append((flags.dump, "--dump-args", (str(options.dump_level),)))
    if options.dep_gen:
        wanted.append((flags.dep_gen, "--dep-gen", ()))
    if options.runtime_dir is not None:
        wanted.append((flags.runtime_dir, "--runtime-dir", (str(options.runtime_dir),)))
    return wanted


PERTURBATION_KEY = "+perturbation"
"""A run's perturbation has this key among its revisions. No repository has such a name."""


def perturbation_name(revisions: Mapping[str, str]) -> str | None:
    """Return the name of a run's perturbation; None where the run has none."""
    return revisions.get(PERTURBATION_KEY)


def find_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Perturbation | None:
    """Return the perturbation of a run with these revisions; None where they name none."""
    name = perturbation_name(revisions)
    return None if name is None else stack.perturbations[name]


def perturbation_key(perturbation: Perturbation) -> str:
    """Return a key that identifies a perturbation, whatever its name is."""
    told = {"variables": dict(perturbation.variables), "command": perturbation.command}
    return json.dumps(told, sort_keys=True)


def apply_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Stack:
    """Return the stack for a run with these revisions: the variables of its perturbation are the case's own."""
    perturbation = find_perturbation(stack, revisions)
    if perturbation is None:
        return stack
    case = stack.case.model_copy(update={"variables": {**stack.case.variables, **perturbation.variables}})
    return stack.model_copy(update={"case": case})


def perturbed_content_key(content: str, key: str) -> str:
    """Return the content key of a run under a perturbation, from the run's content and the perturbation's key."""
    return hashlib.sha256(f"{content}\nunder {key}".encode()).hexdigest()


def missing_requirements(perturbation: Perturbation, path: str | None = None) -> list[str]:
    """Return what a perturbation needs and this machine does not have. Commands are searched on `path`."""
    commands = perturbation.command[:1]
    return [
        each
        for each in (*commands, *perturbation.needs)
        if not (Path(each).exists() if os.sep in each else shutil.which(each, path=path))
    ]


_FOLDERS = ("in", "out")
_SUFFIX = ".pt"


@dataclass(frozen=True)
class FrozenGolden:
    """Frozen data: `directory` holds `in/*.pt` and `out/*.pt`; `files` gives the SHA-256 of each."""

    digest: str
    directory: Path
    files: Mapping[str, str]

    def verify(self) -> None:
        """Check every file.

        Raises:
            UserError: a file is no longer what was frozen.
        """
        found = _hash_files(self.directory)
        for name in sorted(found.keys() | self.files.keys()):
            if found.get(name) != self.files.get(name):
                raise UserError(
                    f"{self.directory / name}: expected the frozen file with SHA-256 "
                    f"{self.files.get(name, 'none')[:16]}, found {found.get(name, 'no file')[:16]}; "
                    "remove this folder and start again with the original data (--golden-data)"
                )


def load_reader() -> threading.Thread:
    """Start to load the reader of tensors, which takes a second, while the caller does other work before it freezes.

    The thread must be joined before the process ends: torch cannot be imported while Python shuts down.
    """

    def load() -> None:
        # An error is reported where the reader is needed.
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("torch")

    reader = threading.Thread(target=load)
    reader.start()
    return reader


def freeze(source: Path, store: Path) -> FrozenGolden:
    """Copy a golden folder into the store. Raises `UserError` where it is incomplete or cannot be read safely.

    Every tensor is loaded once, before any run may see it. Only weights are loaded, so nothing in a file is executed.
    Links that lead out of the folder are refused.
    """
    tensors = _check_tensors(source)
    try:
        make_folder(store)
        with FileLock(store / "freeze.lock"):
            digest, files = _copy_in(tensors, store)
    except OSError as error:
        raise UserError(f"{store}: expected room to freeze the golden data: {error}") from error
    frozen = FrozenGolden(digest=digest, directory=store / digest, files=files)
    frozen.verify()
    return frozen


def _copy_in(tensors: Mapping[str, Path], store: Path) -> tuple[str, dict[str, str]]:
    """Copy the tensors by way of a temporary folder. A killed call leaves it only until the next call."""
    temporary = store / "incoming"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for folder in _FOLDERS:
            (temporary / folder).mkdir(parents=True)
        for name, file in tensors.items():
            shutil.copyfile(file, temporary / name)
            (temporary / name).chmod(0o444)
        files = _hash_files(temporary)
        digest = _digest(files)
        if not (store / digest).exists():
            sync_tree(temporary)
            temporary.replace(store / digest)
            sync(store)
        return digest, files
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def digest_of(source: Path) -> str:
    """Return the digest that the data of a golden folder will have once it is frozen."""
    return _digest(
        {
            f"{folder}/{file.name}": _hash_file(file.resolve())
            for folder in _FOLDERS
            if (source / folder).is_dir()
            for file in sorted((source / folder).iterdir())
            if file.name.endswith(_SUFFIX)
        }
    )


def load_frozen(digest: str, store: Path) -> FrozenGolden:
    """Find frozen data again. Raises `UserError` where it is gone or changed."""
    directory = store / digest
    if not directory.is_dir():
        raise UserError(
            f"{directory}: expected the golden data this bisection was started with, found none; start a new one"
        )
    files = _hash_files(directory)
    if _digest(files) != digest:
        raise UserError(
            f"{directory}: the frozen golden data was changed; remove it and start a new bisection"
        )
    return FrozenGolden(digest=digest, directory=directory, files=files)


def _check_tensors(source: Path) -> dict[str, Path]:
    """Return the tensor files by their names in frozen data, with links resolved.

    Each file was found to hold a tensor and nothing else.
    """
    # The import is late because it loads torch, which a command that freezes nothing need not wait for.
    from ..build_output.directory import GoldenData
    from ..build_output.files import BuildOutputError, Folder
    from ..build_output.tensor_files import load_tensor

    checked: dict[str, Path] = {}
    try:
        folder = Folder.open(source, expected="a folder of golden data")
        for kind in _FOLDERS:
            for entry in folder.names(kind) if folder.has_folder(kind) else ():
                name = f"{kind}/{entry}"
                if entry.endswith(_SUFFIX):
                    load_tensor(folder, name)
                    checked[name] = folder.locate(name)
        GoldenData.open(source)
    except BuildOutputError as error:
        raise UserError(f"golden data: {error}") from error
    return checked


def _hash_files(directory: Path) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for folder in _FOLDERS:
        for file in sorted((directory / folder).iterdir()) if (directory / folder).is_dir() else ():
            hashes[f"{folder}/{file.name}"] = _hash_file(file)
    return hashes


def _hash_file(file: Path) -> str:
    """Return the SHA-256 of a regular file. Anything else, a pipe for instance, is not opened."""
    if not stat.S_ISREG(file.lstat().st_mode):
        return "no regular file"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
