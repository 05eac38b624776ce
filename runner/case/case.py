"""A case: its script, its options at a commit, the command that runs it, and the data that it runs on.

`CaseName` is the script, and `case_command` makes the command. `find_perturbation` returns the perturbation of a run: a
change of its surroundings that may make a flaky failure certain. `freeze` copies golden data, so that every probe of a
bisection runs on the same inputs and expected outputs. Each file of `FrozenGolden` is checked before a use.
"""

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

from ...store.durable_files import make_folder, sync, sync_tree, try_remove_tree
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
        """Parse the option's text. Raises `UsageError`.

        An absolute path inside the user's checkout means the same file at the tested commit.
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
    """The data of a run, and what it records, by the names of the harness's settings."""

    golden_data: Path | None = None
    save_data: bool = False
    dump_passes: bool = False
    dump_level: int = 0
    dep_gen: bool = False
    runtime_dir: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CaseCommand:
    """The command line that runs a case."""

    argv: tuple[str, ...]
    missing: tuple[str, ...]
    """The requested options that neither the case nor the shim accepts."""
    begin_line: str | None = None
    """The line that the shim prints before the case's own output; None where nothing runs before the case."""


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
    prefix: Sequence[str] = (),
) -> CaseCommand:
    """Return the command that runs a case. Its first words are `prefix`.

    An option that is `offered` by the case goes to the case, in the case's spelling. The others go to the shim, if
    there is one, which writes to `outcome`. `values` are those of the stack file's placeholders. A script that runs
    before the case gets none of the options.
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
        for each in predecessors(stack):
            shim.extend(("--after", _predecessor_command(each, stack, values)))
        script = [str(_SHIM), "--outcome", str(outcome), *shim, "--", values["case"]]
    argv = [*prefix]
    for word in stack.case.command:
        argv.extend(script if word == "{case}" else [fill(word, values)])
    return CaseCommand(
        argv=(*argv, *(case.arguments if case else ()), *own),
        missing=tuple(missing),
        begin_line=case_begins_line(str(outcome)) if stack.case.after else None,
    )


def predecessors(stack: Stack) -> tuple[CaseName, ...]:
    """Return the scripts that run before the case, in its process. Raises `UsageError`."""
    return tuple(CaseName.parse(text, stack, option="--after") for text in stack.case.after)


def add_predecessors(stack: Stack, texts: Sequence[str]) -> Stack:
    """Return the stack with these scripts behind its predecessors of the case. Raises `UsageError`."""
    if not texts:
        return stack
    if not stack.case.harness:
        raise UsageError(
            f"--after {texts[0]}: expected a case that runs under the harness's shim (case.harness), found none in "
            f"stack {stack.name}; leave --after out, or let the case's own script run it first"
        )
    scripts = tuple(str(CaseName.parse(text, stack, option="--after")) for text in texts)
    case = stack.case.model_copy(update={"after": (*stack.case.after, *scripts)})
    return stack.model_copy(update={"case": case})


def drop_predecessors(stack: Stack) -> Stack:
    """Return the stack without predecessors of its case."""
    return stack.model_copy(update={"case": stack.case.model_copy(update={"after": ()})})


def _predecessor_command(predecessor: CaseName, stack: Stack, values: Mapping[str, str]) -> str:
    """Return the command line of a predecessor: its script, the words behind `{case}`, and its own arguments."""
    command = stack.case.command
    shared = [fill(word, values) for word in command[command.index("{case}") + 1 :]]
    path = str(PurePosixPath(values[stack.case.repository]) / predecessor.path)
    return shlex.join((path, *shared, *predecessor.arguments))


def _requested_options(stack: Stack, options: RunOptions) -> list[tuple[Sequence[str], str, tuple[str, ...]]]:
    """Return each requested option: its spellings for the case, its spelling for the shim, and its value."""
    flags = stack.case.flags
    requested: list[tuple[Sequence[str], str, tuple[str, ...]]] = []
    if options.golden_data is not None:
        requested.append((flags.golden_data, "--golden-data", (str(options.golden_data),)))
    if options.save_data:
        requested.append((flags.save_data, "--save-data", ()))
    if options.dump_passes:
        requested.append((flags.dump_passes, "--dump-passes", ()))
    if options.dump_level:
        requested.append((flags.dump, "--dump-args", (str(options.dump_level),)))
    if options.dep_gen:
        requested.append((flags.dep_gen, "--dep-gen", ()))
    if options.runtime_dir is not None:
        requested.append((flags.runtime_dir, "--runtime-dir", (str(options.runtime_dir),)))
    return requested


PERTURBATION_KEY = "+perturbation"
"""The revisions of a run have the name of its perturbation under this key, which no repository has as a name."""


def perturbation_name(revisions: Mapping[str, str]) -> str | None:
    """Return the name of a run's perturbation; None where the run has none."""
    return revisions.get(PERTURBATION_KEY)


def find_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Perturbation | None:
    """Return the perturbation of a run; None where the run has none."""
    name = perturbation_name(revisions)
    return None if name is None else stack.perturbations[name]


def perturbation_key(perturbation: Perturbation) -> str:
    """Return a key that is equal for perturbations that do the same."""
    effect = {"variables": dict(perturbation.variables), "command": perturbation.command}
    return json.dumps(effect, sort_keys=True)


def apply_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Stack:
    """Return the stack whose case has the variables of a run's perturbation. The perturbation's command is not used."""
    perturbation = find_perturbation(stack, revisions)
    if perturbation is None:
        return stack
    case = stack.case.model_copy(update={"variables": {**stack.case.variables, **perturbation.variables}})
    return stack.model_copy(update={"case": case})


def perturbed_content_key(content: str, key: str) -> str:
    """Return the content key of a run under a perturbation, from the key of its content without it."""
    return hashlib.sha256(f"{content}\nunder {key}".encode()).hexdigest()


def missing_requirements(perturbation: Perturbation, path: str | None = None) -> list[str]:
    """Return the commands and files that a perturbation needs and this machine lacks. Commands are sought on `path`."""
    return [
        each
        for each in (*perturbation.command[:1], *perturbation.needs)
        if not (Path(each).exists() if os.sep in each else shutil.which(each, path=path))
    ]


_FOLDERS = ("in", "out")
_SUFFIX = ".pt"


@dataclass(frozen=True)
class FrozenGolden:
    """Frozen golden data: the files `in/*.pt` and `out/*.pt` of `directory`."""

    digest: str
    """The SHA-256 of `files`, by which the directory is named."""
    directory: Path
    files: Mapping[str, str]
    """The SHA-256 of each file, by its path in the directory."""

    def verify(self) -> None:
        """Check that every file is what was frozen. Raises `UserError`."""
        found = _hash_files(self.directory)
        for name in sorted(found.keys() | self.files.keys()):
            if found.get(name) != self.files.get(name):
                raise UserError(
                    f"{self.directory / name}: expected the frozen file with SHA-256 "
                    f"{self.files.get(name, 'none')[:16]}, found {found.get(name, 'no file')[:16]}; "
                    "remove this folder and start again with the original data (--golden-data)"
                )


def load_reader() -> threading.Thread:
    """Start a thread that imports torch, which `freeze` needs and which takes a second.

    The caller must join the thread before the process ends: torch cannot be imported while Python shuts down.
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

    Each tensor is loaded once, so that no run meets a malformed file. Nothing in a file is executed, and links that
    lead out of the folder are refused.
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
    """Copy the tensors into the store; return the digest and the SHA-256 of each file."""
    # A killed call leaves this folder until the next call.
    temporary = store / "incoming"
    try_remove_tree(temporary)
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
        try_remove_tree(temporary)


def digest_of(source: Path) -> str:
    """Return the digest that a golden folder will have once it is frozen."""
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
    """Return the frozen data of a digest. Raises `UserError` where it is gone or changed."""
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
    """Return the tensor files of a golden folder, links resolved, by their paths in frozen data. Raises `UserError`.

    Each file is checked to contain a tensor and nothing else.
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
    """Return the SHA-256 of a file; another text for anything that is no regular file, such as a pipe."""
    if not stat.S_ISREG(file.lstat().st_mode):
        return "no regular file"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
