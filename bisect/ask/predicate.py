"""A command behind `--`, as it was typed in the user's checkout, and how a worktree of another commit runs it.

`Predicate` examines the words to find what is run: a program, a script, or a test. A file that git tracks is each
commit's own. Any other file is the user's, and is named by its full path.
"""

import ast
import os
import posixpath
import re
import shlex
import shutil
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import cast

from ...runner.errors import UsageError, nearest_name, nearest_path
from ...runner.git import GitError, GitRepository
from ...runner.stack import (
    COMMAND_STACK,
    PLACEHOLDER_COMMAND,
    RESERVED_NAMES,
    Case,
    Platform,
    Repository,
    Stack,
    escape_braces,
    is_plain_name,
)

PREDICATE_PLATFORM = "host"
AS_BAD_END = "the command fails as the bad end does"


@dataclass(frozen=True, kw_only=True)
class _OptionSyntax:
    """The options of a program that take a value.

    Letters may be bundled behind one dash. A long option may be shortened, as GNU programs allow.
    """

    letters: str = ""
    """The value of these letters is the rest of the word, or else the next word."""
    attached: str = ""
    """The value of these letters is the rest of the word, which may be empty."""
    code: str = ""
    """Letters whose value is code or the name of a module."""
    code_words: tuple[str, ...] = ()
    """Whole words whose value is code."""
    long: tuple[str, ...] = ()


_SHELL = _OptionSyntax(letters="oO", code="c", long=("--rcfile", "--init-file"))
"""A shell takes values from the next words alone. Its code is the first word that is no option."""
_PYTHON = _OptionSyntax(letters="WX", code="cm", long=("--check-hash-based-pycs",))
_INTERPRETERS = {
    r"(ba|da|k|z)?sh": _SHELL,
    r"python[0-9.]*": _PYTHON,
    r"perl": _OptionSyntax(letters="I", attached="CDFMVdimx", code="eE"),
    r"ruby": _OptionSyntax(
        letters="CEIXr",
        attached="FKTWix",
        code="e",
        long=("--encoding", "--external-encoding", "--internal-encoding"),
    ),
    r"node": _OptionSyntax(
        letters="rC",
        code_words=("-e", "-p", "-pe", "--eval", "--print"),
        long=("--require", "--import", "--loader", "--experimental-loader", "--conditions"),
    ),
}
"""Programs that run a script, by their names' pattern."""
_WRAPPERS = {
    "env": _OptionSyntax(letters="uC", long=("--unset", "--chdir")),
    "nice": _OptionSyntax(letters="n", long=("--adjustment",)),
    "nohup": _OptionSyntax(),
    "setsid": _OptionSyntax(),
    "stdbuf": _OptionSyntax(letters="ioe", long=("--input", "--output", "--error")),
    "taskset": _OptionSyntax(),
    "time": _OptionSyntax(letters="fo", long=("--format", "--output")),
    "timeout": _OptionSyntax(letters="ks", long=("--kill-after", "--signal")),
}
"""Programs that run a command."""
_WRAPPERS_WITH_ARGUMENT = ("taskset", "timeout")
"""These wrappers take one argument of their own before the command."""
_TEST_RUNNERS = ("pytest", "py.test")
_MAX_FIRST_LINE = 256
"""At most this many bytes of a script's first line are read. Linux reads as many to find the interpreter."""
_NOT_IN_REPOSITORY_NAME = re.compile("[^A-Za-z0-9_-]+")

_PYTHONPATH = "PYTHONPATH"
_SYSTEM_PREFIX = Path("/usr")
_EDITABLE_MAPPING = re.compile(r"MAPPING\b[^=]*= (\{.*\})")
_MAX_INSTALL_BYTES = 1 << 20
"""A larger file of an editable install is not read."""


@dataclass(frozen=True, kw_only=True)
class CommitFile:
    """A file that is run and belongs to each commit."""

    word: str
    """The file as it was typed."""
    path: PurePosixPath
    """The file as a commit's tree names it."""
    is_program: bool
    """Whether the system starts it, rather than an interpreter."""


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A command, and the folder of the repository that it runs in."""

    words: tuple[str, ...]
    folder: PurePosixPath

    @classmethod
    def from_words(cls, words: Sequence[str], *, here: Path, checkout: Path) -> "Predicate":
        """Return the command that was typed in the folder `here`, for the repository whose checkout is at `checkout`.

        It runs in the same folder of each worktree. The path of a tracked file becomes relative, so that each commit
        runs its own file. A path that leads out of the repository, and the path of an untracked script, become
        absolute, because a worktree does not have these files.
        """
        here, root = here.resolve(), checkout.resolve()
        inside = here.is_relative_to(root) and _root_of(here) == root
        folder = here.relative_to(root) if inside else Path()
        runs = {run.index: run for run in _run_words(words)}
        changed = PurePosixPath()
        relocated = [*words]
        for index, word in enumerate(words):
            run = runs.get(index)
            if run is not None:
                changed = run.folder  # The words behind a program count from the folder that it runs in.
                if run.role is _Role.CODE:
                    continue
            if not ("/" in word or (run is not None and run.is_file)):
                continue
            file, test = (word, "") if run is None else run.split(word)
            found = _relocate_word(
                file,
                here=here / changed,
                folder=root / folder / changed,
                root=root,
                is_run=run is not None,
            )
            if found != file:
                is_shell_code = run is not None and run.role is _Role.SHELL_CODE
                relocated[index] = shlex.quote(found) if is_shell_code else found + test
        return cls(words=tuple(relocated), folder=PurePosixPath(folder))

    def check_runnable(self, *, search_path: str | None = None) -> None:
        """Check that the user's own files and programs can be run. Raises `UsageError`.

        A file has to exist and may have to be executable. A program without a folder has to be in `search_path`, if
        that is given.
        """
        for run in _run_words(self.words):
            word = self.words[run.index]
            is_program = run.role is _Role.PROGRAM
            sets_path = any(before.startswith("PATH=") for before in self.words[: run.index])
            if is_program and "/" not in word and search_path is not None and not sets_path:
                _check_on_path(word, search_path)
            if word.startswith("/") and (is_program or run.is_file):
                _check_file(Path(run.split(word)[0]), is_program=is_program)

    def commit_files(self) -> Iterator["CommitFile"]:
        """Yield the files that the command runs and that belong to each commit."""
        for run in _run_words(self.words):
            word = self.words[run.index]
            is_program = run.role is _Role.PROGRAM
            path = PurePosixPath(posixpath.normpath(self.folder / run.folder / run.split(word)[0]))
            is_file = run.is_file or (is_program and "/" in word)
            if is_file and not path.is_absolute():
                yield CommitFile(word=word, path=path, is_program=is_program)

    def replace_case(self, stack: Stack, repository: str) -> Stack:
        """Return the stack with this command as its case, run in a repository's worktree."""
        case = Case(
            repository=repository,
            command=tuple(escape_braces(word) for word in self.words),
            cwd=str(PurePosixPath(f"{{{repository}}}") / escape_braces(str(self.folder))),
            harness=False,
        )
        return stack.model_copy(update={"case": case})


def predicate_stack(checkout: Path, *, name: str | None = None) -> Stack:
    """Return a stack of one repository, with nothing to build and no case yet."""
    own = _NOT_IN_REPOSITORY_NAME.sub("-", checkout.name.removesuffix(".git")).strip("-")
    name = name or (own if is_plain_name(own) and own not in RESERVED_NAMES else "repository")
    return Stack(
        name=COMMAND_STACK,
        searched=name,
        repositories={name: Repository(path=checkout, submodules=True)},
        case=Case(repository=name, command=PLACEHOLDER_COMMAND, cwd=f"{{{name}}}", harness=False),
        platforms={PREDICATE_PLATFORM: Platform()},
    )


def redirect_pythonpath(
    stack: Stack, repository: str, words: Sequence[str], variables: Mapping[str, str]
) -> Stack:
    """Return the stack with a PYTHONPATH that has a worktree's folder in place of each folder of the checkout.

    An entry of PYTHONPATH may lie in the checkout, and so may the sources of a package that was installed in editable
    mode. Without this, every commit would be tested with the modules of the checkout. A stack with its own PYTHONPATH
    is not changed. A PYTHONPATH among the case's variables overrides all others, so it is replaced there.

    `variables` are those of the command: the user's, overridden by the case's.
    """
    overridden = _PYTHONPATH in stack.case.variables
    if _PYTHONPATH in stack.environment.variables and not overridden:
        return stack
    checkout = GitRepository(stack.repositories[repository].path)
    entries = [Path(entry) for entry in variables.get(_PYTHONPATH, "").split(os.pathsep) if entry]
    folders = dict.fromkeys((*entries, *_editable_folders(words, variables)))
    own = {folder for folder in folders if _is_tracked(folder, checkout)}
    if not own:
        return stack
    root = checkout.path.resolve()
    templates = (
        str(PurePosixPath(f"{{{repository}}}") / escape_braces(str(folder.resolve().relative_to(root))))
        if folder in own
        else escape_braces(str(folder))
        for folder in folders
        if folder in own or folder in entries
    )
    path = os.pathsep.join(dict.fromkeys(templates))
    if overridden:
        case = stack.case.model_copy(update={"variables": {**stack.case.variables, _PYTHONPATH: path}})
        return stack.model_copy(update={"case": case})
    environment = stack.environment.model_copy(
        update={"variables": {**stack.environment.variables, _PYTHONPATH: path}}
    )
    return stack.model_copy(update={"environment": environment})


def import_notice(stack: Stack, repository: str) -> str | None:
    """Return a notice about the PYTHONPATH of `redirect_pythonpath`. Return None where it set none."""
    path = {**stack.environment.variables, **stack.case.variables}.get(_PYTHONPATH, "")
    if stack.steps or f"{{{repository}}}" not in path:
        return None
    return f"Python imports the modules of each commit, not those of your checkout: PYTHONPATH={path}"


def _is_tracked(folder: Path, checkout: GitRepository) -> bool:
    """Return whether a folder is in the checkout, and git tracks files in it. They may be those of a submodule."""
    root, place = checkout.path.resolve(), folder.resolve()
    if not (folder.is_absolute() and place.is_relative_to(root)):
        return False
    with suppress(GitError):
        return bool(checkout.run("ls-files", "--recurse-submodules", "--", str(place.relative_to(root))))
    return False


def _editable_folders(words: Sequence[str], variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders from which editable installs take modules, for each Python that the words may start.

    Installers write such a folder as a line of a `.pth` file. Setuptools may write a mapping of packages into a module.
    No interpreter is asked, because a plan runs nothing.
    """
    for packages in _package_folders(words, variables):
        for file in sorted(packages.glob("*.pth")):
            yield from (Path(line) for line in _lines(file) if Path(line).is_absolute())
        for file in sorted(packages.glob("__editable__*_finder.py")):
            for line in _lines(file):
                if found := _EDITABLE_MAPPING.fullmatch(line):
                    yield from _mapped_folders(found[1])


def _package_folders(words: Sequence[str], variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of installed packages, for each Python that the words may start.

    They are below the prefix of a program, once links are resolved, too, and below the user's base. Debian's Python
    also reads those of `/usr/local`. A shim of pyenv may start any of its versions.
    """
    search_path = variables.get("PATH", os.defpath)
    programs = [
        Path(program)
        for word in (*words, "python3", "python")
        if (program := shutil.which(word, path=search_path))
    ]
    bases = [variables.get("PYTHONUSERBASE"), variables.get("HOME") and f"{variables['HOME']}/.local"]
    prefixes = {Path(base) for base in bases if base}
    for program in programs:
        prefix = program.parent.parent
        prefixes |= {prefix, prefix.resolve(), program.resolve().parent.parent}
        if program.parent.name == "shims":
            prefixes.update((prefix / "versions").glob("*"))
    if _SYSTEM_PREFIX in prefixes:
        prefixes.add(_SYSTEM_PREFIX / "local")
    for prefix in sorted(prefixes):
        yield from prefix.glob("lib/python3*/site-packages")
        yield from prefix.glob("lib/python3*/dist-packages")


def _lines(file: Path) -> list[str]:
    """Return the lines of a text file. Return [] if the file is too large or not text."""
    with suppress(OSError, ValueError):
        return [] if file.stat().st_size > _MAX_INSTALL_BYTES else file.read_text().splitlines()
    return []


def _mapped_folders(mapping: str) -> Iterator[Path]:
    """Yield the parent folder of each package whose folder is named after it; only those can be put on PYTHONPATH."""
    try:
        packages = cast(Mapping[object, object], ast.literal_eval(mapping))
        folders = [(str(name), Path(str(place))) for name, place in packages.items()]
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return
    yield from (folder.parent for name, folder in folders if folder.stem == name)


def _check_file(file: Path, *, is_program: bool) -> None:
    """Raise `UsageError` where the user's own file cannot be run."""
    if not os.path.exists(file):  # noqa: PTH110 (pathlib's raises where a folder may not be entered)
        near = nearest_path(file)
        advice = "name one that is there" if near is None else f"did you mean {near}?"
        raise UsageError(f"-- {file}: expected a file to run, found none; {advice}")
    if not is_program:
        return
    if file.is_dir():
        raise UsageError(f"-- {file}: expected a file to run, found a folder; name the file")
    if not (file.is_file() and os.access(file, os.X_OK)):
        raise UsageError(
            f"-- {file}: expected a file that may be executed, found one that may not; run: chmod +x {file}"
        )
    _check_first_line(file)


def _check_on_path(program: str, search_path: str) -> None:
    """Raise `UsageError` where a program without a folder is in no folder of a PATH.

    A PATH with a relative folder is not checked, because that folder belongs to a worktree. A word with blanks is not
    checked either: `ends` does that.
    """
    folders = search_path.split(os.pathsep)
    if any(map(str.isspace, program)) or not all(map(os.path.isabs, folders)):
        return
    if shutil.which(program, path=search_path):
        return
    if Path(program).is_file():
        hint = f"did you mean -- ./{program}"
    else:
        near = nearest_name(program, [name for folder in folders for name in _names_in(Path(folder))])
        hint = (
            "name one that is there, or a file with its folder" if near is None else f"did you mean {near}?"
        )
    raise UsageError(f"-- {program}: expected a program in one of the folders of PATH, found none; {hint}")


def _names_in(folder: Path) -> list[str]:
    """Return the names in a folder. Return [] if it cannot be listed."""
    with suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []


def interpreter_of(name: str) -> str:
    """Return the program that usually runs a script of this name.

    >>> interpreter_of("check.py"), interpreter_of("check")
    ('python3', 'sh')
    """
    return {".py": "python3", ".pl": "perl", ".rb": "ruby", ".js": "node"}.get(
        PurePosixPath(name).suffix, "sh"
    )


def _check_first_line(file: Path) -> None:
    """Raise `UsageError` if the file is a text whose first line does not name an interpreter that is there."""
    try:
        with file.open("rb") as script:
            line = script.readline(_MAX_FIRST_LINE)
        getincrementaldecoder("utf-8")().decode(line)  # The limit may cut the last character.
    except (OSError, UnicodeDecodeError):
        return  # a program that may be run but not read, or a binary one
    if b"\0" in line:
        return
    words = line[2:].split() if line.startswith(b"#!") else []
    if not words:
        raise UsageError(
            f"-- {file}: expected a program, or a script whose first line is #! and its interpreter, found neither; "
            f"name the interpreter: -- {interpreter_of(file.name)} {file}"
        )
    if line.endswith(b"\r\n"):
        raise UsageError(
            f"-- {file}: expected lines that end as on this system, found CRLF line endings; the kernel reads the \\r "
            f"as part of the interpreter's name; run: sed -i 's/\\r$//' {file}"
        )
    interpreter = Path(os.fsdecode(words[0]))
    if interpreter.is_absolute() and not interpreter.exists():
        raise UsageError(
            f"-- {file}: expected the interpreter {interpreter} that its first line names, found none"
        )


def _root_of(folder: Path) -> Path | None:
    """Return the root of the checkout around a folder. In a submodule this is the submodule's own root."""
    try:
        return GitRepository(folder).root.resolve()
    except GitError:
        return None


class _Role(Enum):
    """The part of a word that is run."""

    PROGRAM = "program"
    """The system starts it."""
    SCRIPT = "script"
    """The interpreter before it runs it."""
    TEST = "test"
    """`FILE` or `FILE::TEST`, which the test runner before it runs."""
    SHELL_CODE = "shell code"
    CODE = "code"
    """Code of another interpreter, or the name of a module."""


@dataclass(frozen=True)
class _RunWord:
    """A word that is run, by its index."""

    index: int
    role: _Role
    folder: PurePosixPath = field(default_factory=PurePosixPath)
    """The folder that it runs in, from the command's own: what `env -C` names."""

    @property
    def is_file(self) -> bool:
        """Return whether it names a file, with or without its folder. A program may be one that is on PATH."""
        return self.role in (_Role.SCRIPT, _Role.TEST)

    def split(self, word: str) -> tuple[str, str]:
        """Return the file that a word names, and the test in it with its `::`."""
        file, colons, test = word.partition("::") if self.role is _Role.TEST else (word, "", "")
        return file, colons + test


def _run_words(words: Sequence[str]) -> Iterator[_RunWord]:
    """Yield the words of a command that are run: programs, and the script or code of an interpreter.

    There are several programs where one runs another, as `timeout` does.
    """
    index, folder = 0, PurePosixPath()
    while index < len(words):
        yield _RunWord(index, _Role.PROGRAM, folder)
        name = PurePosixPath(words[index]).name
        if name not in _WRAPPERS:
            yield from (replace(run, folder=folder) for run in _scripts(words, index))
            return
        operand = _find_operand(words, index + 1, _WRAPPERS[name], dash_is_option=name == "env")
        index = operand.index + (name in _WRAPPERS_WITH_ARGUMENT)
        if name == "env":
            folder /= operand.values.get("C") or operand.values.get("--chdir") or ""
            while index < len(words) and "=" in words[index]:
                index += 1


def _scripts(words: Sequence[str], index: int) -> Iterator[_RunWord]:
    """Yield what the interpreter, or the test runner, at an index runs."""
    name = PurePosixPath(words[index]).name
    if name in _TEST_RUNNERS:
        yield from _tests(words, index + 1)
        return
    syntax = next((each for names, each in _INTERPRETERS.items() if re.fullmatch(names, name)), None)
    if syntax is None:
        return
    operand = _find_operand(words, index + 1, syntax)
    if operand.index < len(words) and not operand.has_attached_code:
        code = _Role.SHELL_CODE if syntax is _SHELL else _Role.CODE
        yield _RunWord(operand.index, code if operand.is_code else _Role.SCRIPT)
    if syntax is _PYTHON and operand.values.get("m") in _TEST_RUNNERS:
        yield from _tests(words, operand.index)


def _tests(words: Sequence[str], index: int) -> Iterator[_RunWord]:
    """Yield the test files that are named from an index on."""
    for place in range(index, len(words)):
        run = _RunWord(place, _Role.TEST)
        if run.split(words[place])[0].endswith(".py") and not words[place].startswith("-"):
            yield run


@dataclass(frozen=True)
class _Operand:
    """The first word behind a program's options."""

    index: int
    """The index of the word, or the number of words where there is none or standard input is read."""
    values: Mapping[str, str]
    """The values of options, by their letters or long names."""
    is_code: bool = False
    has_attached_code: bool = False
    """Whether an option has the code attached, so that the word is its first argument."""


@dataclass(frozen=True, kw_only=True)
class _Option:
    """An option as it was read. The number of words behind it that are its value is `takes`."""

    takes: int = 0
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    is_code: bool = False
    is_attached: bool = False


def _find_operand(
    words: Sequence[str], index: int, syntax: _OptionSyntax, *, dash_is_option: bool = False
) -> _Operand:
    """Return the first operand from an index on. A `-` alone is standard input, unless it is an option."""
    values: dict[str, str] = {}
    is_code = False
    while index < len(words):
        word = words[index]
        if word == "-" and not dash_is_option:
            return _Operand(len(words), values)
        if not word.startswith(("-", "+") if syntax is _SHELL else "-"):
            break
        index += 1
        if word == "--":
            break
        option = _read_option(word, "".join(words[index : index + 1]), syntax)
        values |= option.values
        if option.is_code and syntax is not _SHELL:
            return _Operand(index, values, is_code=True, has_attached_code=option.is_attached)
        is_code = is_code or option.is_code
        index += option.takes
    return _Operand(min(index, len(words)), values, is_code)


def _read_option(word: str, following: str, syntax: _OptionSyntax) -> _Option:
    """Return what an option takes. `following` is the next word, or an empty text where there is none."""
    name, equals, value = word.partition("=")
    if name in syntax.code_words:
        return _Option(is_code=True, is_attached=bool(equals))
    if word.startswith("--"):
        option = next((each for each in syntax.long if each.startswith(name)), None)
        return (
            _Option()
            if option is None
            else _Option(takes=int(not equals), values={option: value if equals else following})
        )
    if syntax is _SHELL:
        return _Option(
            takes=sum(map(word.count, syntax.letters)), is_code=not set(syntax.code).isdisjoint(word)
        )
    for place, letter in enumerate(word[1:], start=2):
        rest = word[place:]
        if letter in syntax.letters + syntax.code:
            return _Option(
                takes=int(not rest),
                values={letter: rest or following},
                is_code=letter in syntax.code,
                is_attached=bool(rest),
            )
        if letter in syntax.attached:
            break
    return _Option()


def _relocate_word(word: str, *, here: Path, folder: Path, root: Path, is_run: bool) -> str:
    """Return a word that was typed in `here`, for a command that runs in the worktree's copy of `folder`.

    `root` is the root of the checkout. `is_run` says that the word is run.
    """
    path = Path(os.path.normpath(here / word))
    path = path.parent.resolve() / path.name
    if not os.path.exists(path):  # noqa: PTH110 (pathlib's raises where a word is too long for a path)
        leads_out = not path.is_relative_to(root) and os.path.normpath(word).startswith("../")
        # A word with blanks is code of a shell rather than one path.
        return str(path) if leads_out and not any(map(str.isspace, word)) else word
    if not path.is_relative_to(root):
        return str(path)
    repository = GitRepository(root)
    if not repository.is_bare and repository.run("--literal-pathspecs", "ls-files", "--", str(path)):
        relative = os.path.relpath(path, folder)
        if relative == os.path.normpath(word):
            return word
        return f"./{relative}" if is_run and "/" not in relative else relative
    return str(path) if is_run and path.is_file() else word
