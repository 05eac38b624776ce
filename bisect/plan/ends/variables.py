"""Variables of the shell: which of them what is run at the ends names, in sources, overlays or the command."""

import re
from collections.abc import Iterator
from pathlib import Path

from ....runner.git.cherry_picks import patches_in
from ....runner.stack.templates import unfilled
from ....runner.workspace.inherited import InheritedVariables, reaching_cases
from ....runner.workspace.workspace import Workspace
from ..question import views
from ..request import BisectRequest

_WORD = re.compile(r"\w+")
_FILE = re.compile(r"/[^\s'\";|&<>()]+")
_LARGEST_SCRIPT = 1 << 20


def variables_read(request: BisectRequest, workspace: Workspace) -> InheritedVariables:
    """What of the shell reaches the runs of a case, with what nothing is known to read set apart."""
    inherited = reaching_cases(request.stack)
    names = [*inherited.values]
    named = {word for text in _texts_of_command(request) for word in _WORD.findall(text)}
    for repository, commit in _commits(request, workspace):
        named |= workspace.clones[repository].words_used(commit, names)
    return inherited.read_by(named)


def _commits(request: BisectRequest, workspace: Workspace) -> Iterator[tuple[str, str]]:
    """The commits that runs of the ends are made of, with what is laid over them."""
    stack, (_, revisions) = request.stack, views(request, workspace)
    ends = (request.bad,) if request.gallop is not None else (request.good, request.bad)
    for end in ends:
        held = revisions.complete({**request.frozen, request.repository: end})
        yield from ((name, held[name]) for name in stack.repositories if name in held)
        yield from ((name, patch) for name in stack.repositories for patch in patches_in(held, name))
    for name, repository in stack.repositories.items():
        yield from ((name, overlay.commit) for overlay in repository.overlays)


def _texts_of_command(request: BisectRequest) -> Iterator[str]:
    """The words of the commands, and scripts among them that lie outside of the repositories."""
    case = request.stack.case
    steps = (word for step in request.stack.steps.values() for word in step.command)
    for word in (*case.command, *case.after, *steps, request.case_text):
        text = unfilled(word)
        yield text
        for file in {Path(text), *map(Path, _FILE.findall(text))}:
            if file.is_absolute() and file.is_file() and file.stat().st_size <= _LARGEST_SCRIPT:
                yield file.read_text(encoding="utf-8", errors="replace")
