"""What to do where a case is refused an argument: which commit renamed it, and how the case is asked with its names."""

import shlex
from collections.abc import Iterator

from ...runner.errors import UserError
from ...runner.git.renames.proposal import ProposedRename
from ...runner.git.renames.search import RefusedArgument, refused_argument, renames_behind
from ...runner.git.repository import GitRepository
from ...runner.stack.parts import Rename
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement
from ..plan.request import BisectRequest
from ..report.model.rows import Rows

_OPTIONS = ("--stack", "--repository")
"""Those of a bisection that the subcommand has too."""


def told_of_refused_arguments(rows: Rows) -> Iterator[str]:
    """A sentence for each argument that a run was refused, and that kept it from being judged."""
    told: set[RefusedArgument] = set()
    for probe in rows.probes:
        refused = _refused(probe)
        if refused is not None and refused not in told:
            told.add(refused)
            yield _advice(rows.request, probe, refused)


def _refused(probe: ProbeRow) -> RefusedArgument | None:
    if probe.judgement is not Judgement.SKIP:
        return None
    return next(filter(None, (refused_argument(line.text) for line in probe.evidence)), None)


def _advice(request: BisectRequest, probe: ProbeRow, refused: RefusedArgument) -> str:
    said = (
        f"at {probe.commit[:12]} {refused.function} takes no {refused.keyword}: the case is of another time"
    )
    renames = [each.rename for each in _renames(request, probe, refused)]
    if not renames:
        return (
            f"{said}; of a commit that renamed the argument, bisect-precision adapt REV > renames.toml writes down "
            "how, for --adapt renames.toml"
        )
    became = " and ".join(
        f"{rename.old} became {rename.new} with {rename.commit[:12]} of {rename.repository}"
        for rename in renames
    )
    options = [*_stack_options(request)]
    commands = [
        f"{shlex.join(_adapt(request, rename, options))} {'>>' if place else '>'} renames.toml"
        for place, rename in enumerate(renames)
    ]
    return (
        f"{said}, {became}; run: {' && '.join(commands)}, look at it, and ask again with --adapt renames.toml"
    )


def _adapt(request: BisectRequest, rename: Rename, options: list[str]) -> list[str]:
    repo = ["--repo", rename.repository] if rename.repository != request.stack.searched else []
    return ["bisect-precision", "adapt", rename.commit[:12], *repo, *options]


def _renames(request: BisectRequest, probe: ProbeRow, refused: RefusedArgument) -> list[ProposedRename]:
    """Looked for in the searched repository first, and not in that of the case, which knows its own names."""
    stack = request.stack
    for name in sorted(stack.repositories, key=lambda name: name != request.repository):
        if name == stack.case.repository or name not in probe.revisions:
            continue
        checkout = GitRepository(stack.repositories[name].path)
        searched = name == request.repository
        try:
            found = renames_behind(
                checkout,
                name,
                refused,
                at=probe.revisions[name],
                earlier=[request.range.old] if searched else [],
                later=["HEAD", request.range.new] if searched else ["HEAD"],
            )
        except UserError:
            # What the checkout does not have any more, or never had, tells nothing.
            continue
        if found:
            return found
    return []


def _stack_options(request: BisectRequest) -> Iterator[str]:
    """The words that named the stack."""
    words = iter(request.typed)
    for word in words:
        option, equals, _ = word.partition("=")
        if option in _OPTIONS:
            yield word
            if not equals:
                yield next(words)
