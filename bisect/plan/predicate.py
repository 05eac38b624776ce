"""A command behind `--`, as it was typed in the user's checkout: how a worktree of another commit runs it."""

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...runner.errors import UsageError
from ...runner.git.repository import GitError, GitRepository
from ...runner.stack.parts import Case, Platform, Repository
from ...runner.stack.stack import RESERVED_NAMES, Stack, is_plain_name
from ...runner.stack.templates import literal

NOTHING_TO_RUN = ("true",)
"""The command of a case that has none yet, or that a person judges by whatever they run."""
PREDICATE_PLATFORM = "host"
BAD_EXIT_CODES = "the command exits with 1-124"
_INTERPRETER = re.compile(r"(ba|da|k|z)?sh|python[0-9.]*|perl|ruby|node")
_LONGEST_FIRST_LINE = 256
_UNPLAIN = re.compile("[^A-Za-z0-9_-]+")
_CODE = re.compile(r"-[a-z]*c|-m")
_CODE_OF_OTHERS = re.compile(r"-[a-z]*[eE]|-p|--eval|--print")
"""The options of `perl`, `ruby` and `node` that code stands behind; of a shell `-e` is another."""


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A command, and the folder of the repository that it is run in."""

    words: tuple[str, ...]
    folder: PurePosixPath

    @classmethod
    def typed(cls, words: Sequence[str], *, here: Path, checkout: Path) -> "Predicate":
        """The command that was typed in the folder `here`, for the repository whose checkout is at `checkout`.

        It runs in the same folder of each worktree, so that relative paths mean the commit's own files; so do absolute
        ones of what git tracks. Paths that lead out of the repository, whether they exist yet or not, and a script that
        git does not track, are the user's own and named in full: a worktree does not have them.
        """
        here, root = here.resolve(), checkout.resolve()
        inside = here.is_relative_to(root) and _root_of(here) == root
        folder = here.relative_to(root) if inside else Path()
        script = _script(words)
        placed = (
            _placed(word, here=here, folder=root / folder, root=root, runs=index in (0, script))
            if "/" in word or index == script
            else word
            for index, word in enumerate(words)
        )
        return cls(words=tuple(placed), folder=PurePosixPath(folder))

    def check_runnable(self, *, search_path: str | None = None) -> None:
        """Raises `UsageError` where the user's own file that is to be run is not there, or may not be executed, or a
        program without a folder is in none of `search_path`."""
        if search_path is not None:
            _check_found(self.words[0], search_path)
        script = _script(self.words)
        for index in (0,) if script is None or _is_code(self.words, script) else (0, script):
            file = Path(self.words[index])
            if not file.is_absolute():
                continue
            if not file.exists():
                raise UsageError(f"-- {file}: expected a file to run, found none; name one that is there")
            if index == 0 and file.is_dir():
                raise UsageError(f"-- {file}: expected a file to run, found a folder; name the file")
            if index == 0 and not (file.is_file() and os.access(file, os.X_OK)):
                raise UsageError(
                    f"-- {file}: expected a file that may be executed, found one that may not; run: chmod +x {file}"
                )
            if index == 0:
                _check_first_line(file)

    def own_files(self) -> Iterator[tuple[str, PurePosixPath]]:
        """What is run and belongs to each commit itself: as it was typed, and as its tree names it."""
        script = _script(self.words)
        for index in (0,) if script is None or _is_code(self.words, script) else (0, script):
            word = self.words[index]
            if not word.startswith("/") and ("/" in word or index == script):
                yield word, PurePosixPath(posixpath.normpath(self.folder / word))

    def in_place_of_case(self, stack: Stack, repository: str) -> Stack:
        """The stack with this command, run in a repository's worktree, as its case."""
        case = Case(
            repository=repository,
            command=tuple(literal(word) for word in self.words),
            cwd=str(PurePosixPath(f"{{{repository}}}") / literal(str(self.folder))),
            harness=False,
        )
        return stack.model_copy(update={"case": case})


def predicate_stack(checkout: Path, *, name: str | None = None) -> Stack:
    """A stack of one repository, with nothing to build and no case yet."""
    own = _UNPLAIN.sub("-", checkout.name.removesuffix(".git")).strip("-")
    name = name or (own if is_plain_name(own) and own not in RESERVED_NAMES else "repository")
    return Stack(
        name="predicate",
        searched=name,
        repositories={name: Repository(path=checkout, submodules=True)},
        case=Case(repository=name, command=NOTHING_TO_RUN, cwd=f"{{{name}}}", harness=False),
        platforms={PREDICATE_PLATFORM: Platform()},
    )


def _check_found(program: str, search_path: str) -> None:
    """Raises `UsageError` where a program without a folder is in none of those of a PATH. Relative ones are a
    worktree's, and what holds blanks is a line for a shell (`ends/command.py`)."""
    folders = search_path.split(os.pathsep)
    if "/" in program or any(map(str.isspace, program)) or not all(map(os.path.isabs, folders)):
        return
    if shutil.which(program, path=search_path):
        return
    is_here = Path(program).is_file()
    hint = f"did you mean -- ./{program}" if is_here else "name one that is there, or a file with its folder"
    raise UsageError(f"-- {program}: expected a program in one of the folders of PATH, found none; {hint}")


def _check_first_line(file: Path) -> None:
    """Raises `UsageError` where the file is a script that no system can start."""
    with file.open("rb") as script:
        line = script.readline(_LONGEST_FIRST_LINE)
    if b"\0" in line or not line.isascii():
        return  # a program
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
    """The root of the checkout around a folder: a submodule's own, not its holder's."""
    try:
        return GitRepository(folder).root.resolve()
    except GitError:
        return None


def _script(words: Sequence[str]) -> int | None:
    """Which word is a script, or code, that the first word, an interpreter such as `sh`, is to run."""
    if not _INTERPRETER.fullmatch(PurePosixPath(words[0]).name):
        return None
    return next((index for index, word in enumerate(words[1:], 1) if not word.startswith("-")), None)


def _is_code(words: Sequence[str], script: int) -> bool:
    """Whether the options before the script say that it is code, or a module's name, and no file."""
    others = PurePosixPath(words[0]).name in ("perl", "ruby", "node")
    option = _CODE_OF_OTHERS if others else _CODE
    return any(option.fullmatch(word) for word in words[1:script])


def _placed(word: str, *, here: Path, folder: Path, root: Path, runs: bool) -> str:
    """A word of the command, for a worktree whose folder stands for `folder`. `runs`: it is what is run."""
    path = Path(os.path.normpath(here / word))
    path = path.parent.resolve() / path.name
    if not path.exists():
        leads_out = not path.is_relative_to(root) and os.path.normpath(word).startswith("../")
        # What holds blanks is code of a shell rather than one path.
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
