"""What the user asks, and what comes of it once it is checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...runner.git.cherry_picks import CherryPicks
from ...runner.git.revisions import Revisions
from ...runner.stack.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.workspace import Workspace
from ...store.vocabulary import Seeks
from ..commits.range import LoadedRange
from .ends.replay import BisectLog
from .predicate import Predicate
from .request import BisectRequest


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the user said, before anything of it is checked."""

    stack: Stack
    repository: str | None
    good: tuple[str, ...]
    """Empty: one is looked for behind the bad end."""
    bad: str
    case: str | None
    platform: str | None
    device: int
    bad_when: str | None
    golden_data: Path | None
    runtime_dir: Path | None
    first_parent: bool
    timeout: float | None
    confidence: float
    output: Path | None
    name: str | None = None
    """What the bisection is called; None: a name is made."""
    end_runs: int | None = None
    gallop: Literal["commits", "days"] = "commits"
    """How far back in each step, where the good end is looked for."""
    seeks: Seeks = Seeks.REGRESSION
    cherry_picks: tuple[str, ...] = ()
    """Each REV@A..B."""
    overlays: tuple[str, ...] = ()
    """Each PATH or PATH@REV."""
    adapt: tuple[Path, ...] = ()
    """Files of renames."""
    skip: tuple[str, ...] = ()
    """Each REV or A..B."""
    path: tuple[str, ...] = ()
    """Each a file or folder of the searched repository."""
    also_old: tuple[str, ...] = ()
    """Revisions that do as the older end does, beside it."""
    interactive: bool = False
    command: Predicate | None = None
    """What stands behind `--`; the stack has it as its case."""
    typed: tuple[str, ...] = ()
    """The words of the command, without its name."""
    replayed: BisectLog | None = None
    """Where ends and skips come from, if not from the user."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A question that can be asked, what it ranges over, and what the user should know before it starts."""

    name: str
    is_named: bool
    """Whether the user named the bisection, or its folder: else each plan of the question makes other names."""
    request: BisectRequest
    range: LoadedRange | None
    """None where the good end has to be found first."""
    notices: tuple[str, ...]


def views(request: BisectRequest, workspace: Workspace) -> tuple[StackContent, Revisions]:
    """What tells contents apart, and which commits belong together, as this request asks for."""
    content = StackContent(request.stack, workspace)
    name = request.repository
    picks = CherryPicks(request.cherry_picks, repository=name, git=workspace.clones[name])
    return content, Revisions(request.stack, workspace.clones, request.fixed, picks=picks)
