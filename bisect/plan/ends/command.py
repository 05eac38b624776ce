"""A command behind `--` that is a file of the repository, or runs in a folder of it: each commit runs its own, so both
ends must have one."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from ....runner.errors import UsageError
from ....runner.git.repository import GitRepository
from ....runner.stack.parts import Overlay
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
    _check_folder(question.command.folder, named, repository, overlays, made=bool(question.stack.steps))
    return notices


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
