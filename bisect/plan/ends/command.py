"""A command behind `--` that is a file of the repository: each commit runs its own, so both ends must have one."""

from collections.abc import Sequence

from ....runner.errors import UsageError
from ....runner.git.repository import GitRepository
from ....runner.stack.parts import Overlay
from ..question import Question
from .find import Ends


def check_command(
    question: Question, ends: Ends, repository: GitRepository, overlays: Sequence[Overlay]
) -> list[str]:
    """What is to be minded, a sentence each: a file that is nowhere yet. Raises `UsageError` where an end has no such
    file, and another one, or the checkout, has. What is laid over every commit is at both."""
    notices = list[str]()
    named = {"good": ends.good, "bad": ends.bad} if question.good else {"bad": ends.bad}
    for file in question.command.own_files() if question.command is not None else ():
        if any(overlay.covers(str(file)) for overlay in overlays):
            continue
        there = {
            end: bool(repository.run("ls-tree", "--full-tree", "--name-only", sha, "--", str(file)))
            for end, sha in named.items()
        }
        lacking = next((end for end, is_there in there.items() if not is_there), None)
        if lacking is not None and (any(there.values()) or (repository.path / file).exists()):
            raise UsageError(
                f"-- {file}: expected it at both ends, for git tracks it and each commit runs its own, found none at "
                f"{lacking} {named[lacking][:12]}; lay it over every commit with --overlay, or "
                "name a copy outside of the repository"
            )
        if lacking is not None:
            notices.append(
                f"-- {file}: neither an end nor the checkout has it; where no build step makes it, no commit can be "
                "judged"
            )
    return notices
