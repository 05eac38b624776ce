"""A command behind `--`, as it was typed in the user's checkout, and how a worktree of another commit runs it.

The words are examined to find what is run: a program, a script, or a test. A file that git tracks is each commit's own.
Any other file is the user's, and is named by its full path.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...runner.errors import UsageError
from ...runner.git import GitError, GitRepository
from ...runner.stack import (
    RESERVED_NAMES,
    Case,
    Platform,
    Repository,
    Stack,
    is_plain_name,
    literal,
    nearest_name,
)

PLACEHOLDER_COMMAND = ("true",)
"""A case has this command where it has none yet, or where a person judges by whatever they run."""
PREDICATE_PLATFORM = "host"
BAD_EXIT_CODES = "the command fails as the bad end does"
_INTERPRETERS = {
    r"(ba|da|k|z)?sh": ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"),
    r"python[0-9.]*": ("-W", "-X", "--check-hash-based-pycs"),
    r"perl": ("-I",),
    r"ruby": ("-C", "-E", "-I", "-r"),
    r"node": ("-r", "--require", "--import", "--loader"),
}
"""These programs run a script given to them. Each has the options that take a value as the next word."""
_WRAPPERS = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "nice": ("-n",),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "taskset": (),
    "time": ("-f", "-o"),
    "timeout": ("-k", "-s"),
}
"""These programs run a command given to them. Each has the options that take a value as the next word."""
_WRAPPERS_WITH_ARGUMENT = ("taskset", "timeout")
"""These wrappers take one argument of their own before the command."""
_TEST_RUNNERS = ("pytest", "py.test")
_LONGEST_FIRST_LINE = 256
"""At most this many bytes of a script's first line are read. Linux reads as many to find the interpreter."""
_UNSAFE_CHARACTERS = re.compile("[^A-Za-z0-9_-]+")
_CODE_OPTION = re.compile(r"-[a-zA-Z]*c|-m")
_EVAL_OPTION = re.compile(r"-[a-z]*[eE]|-p|--eval|--print")
"""Matches the options of `perl`, `ruby` and `node` that code follows. They are apart because `-e` of a shell takes
none."""


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """A file that is run and belongs to each commit.

    `word` is the file as it was typed, and `path` as a commit's tree names it. `by_itself` says whether the system
    starts it, rather than an interpreter.
    """

    word: str
    path: PurePosixPath
    by_itself: bool


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A command, and the folder of the repository that it runs in."""

    words: tuple[str, ...]
    folder: PurePosixPath

    @classmethod
    def from_words(cls, words: Sequence[str], *, here: Path, checkout: Path) -> "Predicate":
        """Return the command that was typed in the folder `here`, for the repository whose checkout is at `checkout`.

        It runs in the same folder of each worktree. So relative paths mean the commit's own files, and so do absolute
        paths of files that git tracks. All other files are the user's own, and are named by their full path because a
        worktree does not have them. These are paths that lead out of the repository, whether they exist yet or not, and
        untracked scripts.
        """
        here, root = here.resolve(), checkout.resolve()
        inside = here.is_relative_to(root) and _root_of(here) == root
        folder = here.relative_to(root) if inside else Path()
        run = {each.place: each for each in _run_words(words)}
        placed = (
            _relocate_word(word, here=here, folder=root / folder, root=root, runs=place in run)
            if "/" in word or (place in run and not run[place].by_itself)
            else word
            for place, word in enumerate(words)
        )
        return cls(words=tuple(placed), folder=PurePosixPath(folder))

    def check_runnable(self, *, search_path: str | None = None) -> None:
        """Check that the user's own files and programs can be run.

        Raises `UsageError` where such a file does not exist or may not be executed. Raises it too where a program
        without a folder is in no folder of `search_path`.
        """
        for run in _run_words(self.words):
            word = self.words[run.place]
            of_shell = not any(before.startswith("PATH=") for before in self.words[: run.place])
            if run.by_itself and "/" not in word and search_path is not None and of_shell:
                _check_on_path(word, search_path)
            if Path(word).is_absolute() and not run.is_code:
                _check_file(Path(word), by_itself=run.by_itself)

    def own_files(self) -> Iterator["OwnFile"]:
        """Yield the files that the command runs and that belong to each commit."""
        for run in _run_words(self.words):
            word = self.words[run.place]
            if not (run.is_code or word.startswith("/")) and ("/" in word or not run.by_itself):
                path = PurePosixPath(posixpath.normpath(self.folder / _file_of(word)))
                yield OwnFile(word=word, path=path, by_itself=run.by_itself)

    def replace_case(self, stack: Stack, repository: str) -> Stack:
        """Return the stack with this command as its case, run in a repository's worktree."""
        case = Case(
            repository=repository,
            command=tuple(literal(word) for word in self.words),
            cwd=str(PurePosixPath(f"{{{repository}}}") / literal(str(self.folder))),
            harness=False,
        )
        return stack.model_copy(update={"case": case})


def predicate_stack(checkout: Path, *, name: str | None = None) -> Stack:
    """Return a stack of one repository, with nothing to build and no case yet."""
    own = _UNSAFE_CHARACTERS.sub("-", checkout.name.removesuffix(".git")).strip("-")
    name = name or (own if is_plain_name(own) and own not in RESERVED_NAMES else "repository")
    return Stack(
        name="predicate",
        searched=name,
        repositories={name: Repository(path=checkout, submodules=True)},
        case=Case(repository=name, command=PLACEHOLDER_COMMAND, cwd=f"{{{name}}}", harness=False),
        platforms={PREDICATE_PLATFORM: Platform()},
    )


def _check_file(file: Path, *, by_itself: bool) -> None:
    """Raises `UsageError` where the user's own file cannot be run."""
    if not file.exists():
        siblings = [path.name for path in file.parent.iterdir()] if file.parent.is_dir() else []
        hint = nearest_name(file.name, siblings)
        mend = "name one that is there" if hint is None else f"did you mean {file.parent / hint}?"
        raise UsageError(f"-- {file}: expected a file to run, found none; {mend}")
    if not by_itself:
        return
    if file.is_dir():
        raise UsageError(f"-- {file}: expected a file to run, found a folder; name the file")
    if not (file.is_file() and os.access(file, os.X_OK)):
        raise UsageError(
            f"-- {file}: expected a file that may be executed, found one that may not; run: chmod +x {file}"
        )
    _check_first_line(file)


def _check_on_path(program: str, search_path: str) -> None:
    """Raises `UsageError` where a program without a folder is in no folder of a PATH.

    A relative folder of PATH belongs to a worktree, so nothing is checked then. A word with blanks is a line for a
    shell; `ends` checks those.
    """
    folders = search_path.split(os.pathsep)
    if any(map(str.isspace, program)) or not all(map(os.path.isabs, folders)):
        return
    if shutil.which(program, path=search_path):
        return
    if Path(program).is_file():
        hint = f"did you mean -- ./{program}"
    else:
        names = [path.name for folder in map(Path, folders) if folder.is_dir() for path in folder.iterdir()]
        near = nearest_name(program, names)
        hint = (
            "name one that is there, or a file with its folder" if near is None else f"did you mean {near}?"
        )
    raise UsageError(f"-- {program}: expected a program in one of the folders of PATH, found none; {hint}")


def _check_first_line(file: Path) -> None:
    """Raises `UsageError` where the file is a script that no system can start."""
    with file.open("rb") as script:
        line = script.readline(_LONGEST_FIRST_LINE)
    if b"\0" in line or not line.isascii():
        return  # a binary program
    words = line[2:].split() if line.startswith(b"#!") else []
    if not words:
        raise UsageError(
            f"-- {file}: expected a program, or a script whose first line is #! and its interpreter, found neither; "
            f"name the interpreter: -- sh {file}"
        )
    if line.endswith(b"\r\n"):
        raise UsageError(
            f"-- {file}: expected lines that end as on this system, found \\r\\n, which counts to the interpreter's "
            f"name; run: sed -i 's/\\r$//' {file}"
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


@dataclass(frozen=True)
class _RunWord:
    """The place of a word that is run.

    `by_itself`: it is run as a program, not by the interpreter before it.
    """

    place: int
    by_itself: bool = True
    is_code: bool = False


def _run_words(words: Sequence[str]) -> Iterator[_RunWord]:
    """Yield the words of a command that are run.

    These are the program, what a program such as `timeout` runs in turn, and the script or code of an interpreter such
    as `sh`.
    """
    place = 0
    while place < len(words):
        yield _RunWord(place)
        name = PurePosixPath(words[place]).name
        if name not in _WRAPPERS:
            yield from _scripts(words, place)
            return
        valued = _WRAPPERS[name]
        place = _next_word(words, place + 1, valued)
        if name in _WRAPPERS_WITH_ARGUMENT:
            place = _next_word(words, place + 1, valued)
        while name == "env" and place < len(words) and "=" in words[place]:
            place = _next_word(words, place + 1, valued)


def _scripts(words: Sequence[str], program: int) -> Iterator[_RunWord]:
    """Yield what the interpreter at the place `program` is to run."""
    name = PurePosixPath(words[program]).name
    if name in _TEST_RUNNERS:
        yield from _tests(words, program)
        return
    valued = next((options for names, options in _INTERPRETERS.items() if re.fullmatch(names, name)), None)
    if valued is None:
        return
    script = _next_word(words, program + 1, valued)
    if script == len(words):
        return
    is_code = _is_code(name, words[program + 1 : script])
    yield _RunWord(script, by_itself=False, is_code=is_code)
    if is_code and words[script - 1] == "-m" and words[script] in _TEST_RUNNERS:
        yield from _tests(words, script)


def _tests(words: Sequence[str], runner: int) -> Iterator[_RunWord]:
    """Yield the test files that are named behind their runner."""
    for place in range(runner + 1, len(words)):
        if _file_of(words[place]).endswith(".py") and not words[place].startswith("-"):
            yield _RunWord(place, by_itself=False)


def _file_of(word: str) -> str:
    """Return a word without the name of a test behind its file."""
    return word.partition("::")[0]


def _next_word(words: Sequence[str], place: int, valued: Sequence[str]) -> int:
    """Return the first place at or after `place` of a word that is neither an option nor the value of one.

    Return `len(words)` where there is none, or where standard input is read.
    """
    while place < len(words) and words[place].startswith(("-", "+")):
        if words[place] == "-":
            return len(words)
        # Of several letters behind one dash, only the last may take a value.
        last = words[place][0] + words[place][-1]
        has_value = words[place] in valued or (words[place][1:].isalpha() and last in valued)
        place += 2 if has_value else 1
    return min(place, len(words))


def _is_code(interpreter: str, options: Sequence[str]) -> bool:
    """Return whether the options before the script say that it is code or a module's name, and no file."""
    option = _EVAL_OPTION if interpreter in ("perl", "ruby", "node") else _CODE_OPTION
    return any(map(option.fullmatch, options))


def _relocate_word(word: str, *, here: Path, folder: Path, root: Path, runs: bool) -> str:
    """Return a word of the command for a worktree, where the worktree's folder stands for `folder`.

    `runs`: the word is what is run.
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
        return f"./{relative}" if runs and "/" not in relative else relative
    return str(path) if runs and path.is_file() else word
