"""What is asked of a bisection: all that a resume needs, as it is kept in the store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ...runner.case.case import CaseName
from ...runner.case.runtime_dir import replay_of
from ...runner.git.cherry_picks import CherryPick
from ...runner.stack.parts import Case, Platform, Repository
from ...runner.stack.stack import Stack, is_plain_name
from ...runner.stack.templates import literal
from ...store.documents.document import Document
from ...store.vocabulary import Seeks
from ..commits.range import Range

PREDICATE_PLATFORM = "host"


class BisectRequest(Document):
    """A question with its stack. `good` and `bad` are full commit ids of `repository`."""

    schema_version: Literal[1] = 1
    stack: Stack
    repository: str
    fixed: Mapping[str, str]
    """The commits of repositories that are neither searched nor pinned, as they were at the start."""
    frozen: Mapping[str, str] = {}
    """What frozen pins are held at, by repository, or by pin where what it names is outside of the stack."""
    good: str
    """Where it has to be found first: the root, behind which nothing is looked at."""
    bad: str
    seeks: Seeks = Seeks.REGRESSION
    """A regression lies behind the good end and before the bad one, a fix the other way about."""
    gallop: Literal["commits", "days"] | None = None
    """The good end is looked for 1, 2, 4, ... of these before the bad one."""
    cherry_picks: tuple[CherryPick, ...] = ()
    """Of `repository`: what its commits are tested with in a stretch that does not build without."""
    case: str | None
    """None: the stack's command is the whole case, or the build directory is."""
    platform: str
    device: int
    bad_when: str | None
    """None: the case is a predicate command, and its exit code says."""
    golden_data: Path | None
    """Where frozen data come from; None: they are captured at the good end, where the case has any."""
    runtime_dir: Path | None = None
    """A build directory that every run uses in place of compiling the case."""
    frozen_runtime_dir: Path | None = None
    """Where its copy lies, once the bisection has begun."""
    first_parent: bool = False
    """Of merges only what was merged into is searched, not the branches."""
    timeout: float | None
    """Seconds for one run; None: ten times what the ends took."""
    confidence: float
    output: Path

    @property
    def range(self) -> Range:
        """Where the change lies; its old end is the root where a good end has to be looked for."""
        regression = self.seeks is Seeks.REGRESSION
        return Range(
            repository=self.repository,
            old=self.good if regression else self.bad,
            new=self.bad if regression else self.good,
            held=self.frozen,
            seeks=self.seeks,
            first_parent=self.first_parent,
        )

    @property
    def replays(self) -> bool:
        """Whether the build directory is itself the case."""
        return self.case is None and self.runtime_dir is not None

    @property
    def case_text(self) -> str | None:
        """How the case is named: a script with its arguments, or a build directory. None: the stack's command is it."""
        return str(self.runtime_dir) if self.replays else self.case

    @property
    def script(self) -> CaseName | None:
        """What the stack's command for cases runs; None where that command is the whole case."""
        if self.case is not None:
            return CaseName.parse(self.case, self.stack)
        return replay_of(self.frozen_runtime_dir) if self.frozen_runtime_dir is not None else None

    @property
    def captures_golden(self) -> bool:
        """Whether golden data are to be saved at the good end."""
        case = self.stack.case
        return (
            self.golden_data is None
            and self.bad_when is not None
            and (case.harness or bool(case.flags.save_data))
        )


def predicate_stack(checkout: Path) -> Stack:
    """A stack of one repository, with nothing to build and no case yet."""
    name = checkout.name if is_plain_name(checkout.name) else "repository"
    return Stack(
        name="predicate",
        searched=name,
        repositories={name: Repository(path=checkout)},
        case=Case(repository=name, command=("true",), cwd=f"{{{name}}}", harness=False),
        platforms={PREDICATE_PLATFORM: Platform()},
    )


def with_predicate(stack: Stack, repository: str, command: Sequence[str]) -> Stack:
    """The stack with a command, run in a repository's worktree, in place of its case."""
    case = Case(
        repository=repository,
        command=tuple(literal(word) for word in command),
        cwd=f"{{{repository}}}",
        harness=False,
    )
    return stack.model_copy(update={"case": case})
