"""`bisect-precision adapt`: what a commit renames, as the file that `--adapt` takes."""

import sys
from collections.abc import Iterator

from ...runner.errors import UsageError
from ...runner.git.renames.proposal import DoubtfulRename, ProposedRename, proposed_renames
from ...runner.git.renames.rules import as_toml
from ...runner.git.repository import GitRepository
from ...runner.stack.overrides import read_overrides
from ...store.words import plural
from ..plan.stack import chosen_stack, repository_stack
from .errors import ERROR, run_command

_MOST_DOUBTS = 20


def propose_renames(
    revision: str, *, repository: str | None, stack: str | None, repositories: tuple[str, ...]
) -> int:
    """Print the renames of a commit as TOML, and the doubtful ones as comments; 1 where there is none to use."""

    def body() -> int:
        overrides = read_overrides(repositories)
        chosen = chosen_stack(stack, overrides) or repository_stack(overrides)
        name = repository or chosen.searched
        if name not in chosen.repositories:
            raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(chosen.repositories))}")
        checkout = GitRepository.open(chosen.repositories[name].path, name=name)
        sha = checkout.resolve(revision, option="adapt")
        proposed, doubtful = proposed_renames(checkout, name, sha)
        about = f"{sha[:12]} of {name} ({checkout.commit(sha).subject})"
        if not proposed:
            print(
                f"note: expected a name that {about} changes wherever Python uses it, found none",
                file=sys.stderr,
            )
        print("\n".join(_lines(about, proposed, doubtful)))
        return 0 if proposed else ERROR

    return run_command(body)


def _lines(about: str, proposed: list[ProposedRename], doubtful: list[DoubtfulRename]) -> Iterator[str]:
    yield f"# Renamed by {about}. Leave out what does not concern the case."
    for each in proposed:
        yield f"\n# {plural(each.places, 'place')} of its diff, the first at {each.first}"
        yield as_toml(each.rename)
    if doubtful:
        yield "\n# Not proposed:"
    for doubt in doubtful[:_MOST_DOUBTS]:
        yield f"# - {doubt.told}: {doubt.why}"
    if len(doubtful) > _MOST_DOUBTS:
        yield f"# - and {len(doubtful) - _MOST_DOUBTS} more, with fewer places"
