"""A command behind `--` that is a file of the repository, or runs in a folder of it: each commit runs its own, so both
ends must have one."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ....runner.errors import UsageError
from ....runner.git.repository import GitRepository
from ....runner.stack.parts import Overlay
from ..predicate import Predicate
from ..question import Question
from .find import Ends


def check_command(
    question: Question, ends: Ends, repository: GitRepository, overlays: Sequence[Overlay]
) -> list[str]:
    """What is to be minded, a sentence each: a file that is nowhere yet. Raises `UsageError` where an end has no such
    file, and another one, or the checkout, has; or lacks the folder that it runs in. What is laid over every commit is
    at both."""
    notices = list[str]()
    named = {"good": ends.good, "bad": ends.bad} if question.good else {"bad": ends.bad}
    if question.command is None:
        return notices
    _check_words(question.command, repository)
    for word, file in question.command.own_files():
        if word == question.command.words[0] and (repository.path / file).is_dir():
            raise UsageError(f"-- {word}: expected a file to run, found a folder; name the file")
        if any(overlay.covers(str(file)) for overlay in overlays):
            continue
        there = {end: _has(repository, sha, file) for end, sha in named.items()}
        lacking = next((end for end, is_there in there.items() if not is_there), None)
        if lacking is not None and (any(there.values()) or (repository.path / file).exists()):
            raise UsageError(
                f"-- {word}: expected it at both ends, for git tracks it and each commit runs its own, found none at "
                f"{lacking} {named[lacking][:12]}; lay it over every commit with --overlay, or "
                "name a copy outside of the repository"
            )
        if lacking is not None:
            notices.append(
                f"-- {word}: neither an end nor the checkout has it; where no build step makes it, no commit can be "
                "judged"
            )
    notices += _told_of_arguments(question.command, named, repository, overlays)
    _check_folder(question.command.folder, named, repository, overlays, made=bool(question.stack.steps))
    return notices


def _check_words(command: Predicate, repository: GitRepository) -> None:
    """Raises `UsageError` where the command is one word that a shell would take apart, and no file is called so."""
    first, *others = command.words
    if others or " " not in first.strip() or (repository.path / command.folder / first).exists():
        return
    raise UsageError(
        f"-- {shlex.quote(first)}: expected a program and its arguments as words of their own, found one word; leave "
        "out the quotes, or for a line of a shell say: -- sh -c 'LINE'"
    )


def _told_of_arguments(
    command: Predicate, named: Mapping[str, str], repository: GitRepository, overlays: Sequence[Overlay]
) -> Iterator[str]:
    """What is given to the command and one end alone has, such as a test that came with the fix."""
    run = {word for word, _ in command.own_files()}
    for word in command.words[1:]:
        file = PurePosixPath(posixpath.normpath(command.folder / word))
        is_path = "/" in word and not word.startswith(("/", "-")) and file.parts[:1] != ("..",)
        if word in run or not is_path or any(overlay.covers(str(file)) for overlay in overlays):
            continue
        there = {end: _has(repository, sha, file) for end, sha in named.items()}
        if any(there.values()) and not all(there.values()):
            has, lacks = sorted(there, key=lambda end: not there[end])
            yield (
                f"{word} is not at the {lacks} end; lay the {has} end's over every commit with --overlay {file}@"
                f"{named[has][:12]} if the command needs it there"
            )


def _check_folder(
    folder: PurePosixPath,
    named: Mapping[str, str],
    repository: GitRepository,
    overlays: Sequence[Overlay],
    *,
    made: bool,
) -> None:
    """Raises `UsageError` where an end lacks the folder in which the command was typed, and runs. `made`: a build step
    may make one that git does not track."""
    if folder == PurePosixPath() or any(PurePosixPath(each.path).is_relative_to(folder) for each in overlays):
        return
    lacking = [end for end, sha in named.items() if not _has(repository, sha, folder)]
    if not lacking or (made and len(lacking) == len(named)):
        return
    raise UsageError(
        f"--: expected the folder {folder}, where the command was typed and runs, at both ends, found none at "
        f"{lacking[0]} {named[lacking[0]][:12]}; type it in a folder that every commit has, such as {repository.path}"
    )


def _has(repository: GitRepository, sha: str, path: PurePosixPath) -> bool:
    return bool(repository.run("ls-tree", "--full-tree", "--name-only", sha, "--", str(path)))
