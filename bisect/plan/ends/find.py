"""The ends of a range: revisions and dates become commits of which one builds on the others, the right way about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....runner.errors import EndsError
from ....runner.git.repository import GitRepository
from ....store.vocabulary import Seeks
from ..question import Question
from .dates import commit_of_date

_OLDER = {Seeks.REGRESSION: "--good", Seeks.FIX: "--bad"}
_NEWER = {Seeks.REGRESSION: "--bad", Seeks.FIX: "--good"}


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Both ends as full commit ids, and what else counts as the older one (see `BisectRequest`)."""

    good: str
    bad: str
    also_old: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """What each name of an end stood for."""
    notices: tuple[str, ...] = ()


def find_ends(question: Question, repository: GitRepository) -> Ends:
    """The ends of the range that is asked about. Raises `EndsError`, `UserError`."""
    seeks = question.seeks
    goods, bads = question.good, (question.bad,)
    older, (newer, *_) = (goods, bads) if seeks is Seeks.REGRESSION else (bads, goods)
    older = (*older, *question.also_old)
    notices: list[str] = []
    named: dict[str, str] = {}

    def resolve(text: str, option: str, line: str, where: str) -> str:
        dated = commit_of_date(repository, text, option=option, line=line, where=where)
        if dated is not None:
            notices.append(dated.notice)
        named[text] = repository.resolve(text, option=option) if dated is None else dated.commit
        return named[text]

    new = resolve(newer, _NEWER[seeks], "HEAD", f"on {repository.branch or 'HEAD'}, which is checked out")
    if not older:
        root = _furthest_good_end(repository, new)
        notices += _end_of_clone(repository, root)
        return Ends(good=root, bad=new, named=named, notices=tuple(notices))
    olds = tuple(dict.fromkeys(resolve(text, _OLDER[seeks], new, "behind the later end") for text in older))
    if new in olds:
        raise _same_ends(new, question.bad, named, notices)
    old = _old_end(repository, olds, new, seeks)
    parted = tuple(sha for sha in olds if not repository.is_ancestor(sha, new))
    notices += _other_bases(repository, olds, new, old)
    notices += [_told_of(sha, old, new, parted, seeks) for sha in olds if sha != old]
    return Ends(
        good=old if seeks is Seeks.REGRESSION else new,
        bad=new if seeks is Seeks.REGRESSION else old,
        also_old=tuple(sha for sha in olds if sha != old),
        parted=() if old in olds else parted,
        named=named,
        notices=tuple(notices),
    )


def _furthest_good_end(repository: GitRepository, bad: str) -> str:
    """As far as a good end is looked for."""
    root, _ = repository.first_parents(bad)[-1]
    if root == bad:
        why = (
            f"a shallow clone ends there; run: {repository.deepen}" if repository.boundary else "it is a root"
        )
        raise EndsError(f"expected commits before bad {bad[:12]} to look for a good end, found none: {why}")
    return root


def _end_of_clone(repository: GitRepository, furthest: str) -> list[str]:
    """That the commits before are not looked at, because they are not here."""
    if furthest not in repository.boundary:
        return []
    return [
        f"a good end is looked for back to {furthest[:12]} of {repository.commit(furthest).date:%Y-%m-%d}, where this "
        f"shallow clone ends; for more: {repository.deepen}"
    ]


def _same_ends(sha: str, bad: str, named: Mapping[str, str], dated: Sequence[str]) -> EndsError:
    """That both ends are one commit; `named` tells the commit of each text, `dated` what dates stand for."""
    good = " and ".join(text for text, each in named.items() if each == sha and text != bad) or bad
    return EndsError(
        f"expected two different ends, found --good {good} and --bad {bad} to name one commit, {sha[:12]}"
        + "".join(f"; {told}" for told in dated)
    )


def _old_end(repository: GitRepository, olds: Sequence[str], new: str, seeks: Seeks) -> str:
    """The end that is run: one that was named, else the best common ancestor of all and the newer end, as in git.

    Raises `EndsError` where one of them builds on the newer end, or there is no common ancestor.
    """
    older, newer = _OLDER[seeks], _NEWER[seeks]
    for sha in olds:
        if repository.is_ancestor(new, sha):
            hint = "to find what fixed it, add --find-fix"
            raise EndsError(
                f"expected {older} to be an ancestor of {newer}, found {sha[:12]} to follow {new[:12]}: the ends are "
                f"swapped; {hint if seeks is Seeks.REGRESSION else 'leave out --find-fix'}"
            )
    bases = repository.merge_bases(new, olds)
    if not bases:
        hint = f" in a shallow clone; run: {repository.deepen}" if repository.boundary else ""
        raise EndsError(
            f"expected related ends, found {olds[0][:12]} and {new[:12]} without a common ancestor{hint}"
        )
    return next((base for base in bases if base in olds), bases[0])


def _other_bases(repository: GitRepository, olds: Sequence[str], new: str, old: str) -> list[str]:
    """That there are merge bases beside the one that is run."""
    others = [] if old in olds else [base for base in repository.merge_bases(new, olds) if base != old]
    names = ", ".join(base[:12] for base in others)
    return (
        [f"of several merge bases {old[:12]} is run first; {names} only if a culprit builds on it"]
        if others
        else []
    )


def _told_of(sha: str, old: str, new: str, parted: Sequence[str], seeks: Seeks) -> str:
    """What becomes of an older end that is not the one that is run."""
    option = f"{_OLDER[seeks]} {sha[:12]}"
    if sha not in parted:
        return f"{option}: what it builds on is no candidate; {old[:12]} is run as that end"
    return (
        f"{option} is no ancestor of {_NEWER[seeks]} {new[:12]}: what both build on is no candidate; "
        f"{old[:12]}, {'their merge base' if len(parted) == 1 else 'the best common ancestor'}, is run as that end"
    )
