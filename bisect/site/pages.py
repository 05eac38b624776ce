"""Every page of the site by its address: the same for a folder of files and for the server."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...runner.errors import UserError
from ...store.schema import Bisection, Commit, Probe, Stage
from ..report.rows import load_rows
from ..report.sides import both_sides
from . import addresses
from .bisection_view import bisection_view
from .commit_view import commit_view
from .listing import list_bisections
from .render import render

_FIRST_BISECTIONS = 12
_MOST_RUNS = 300
"""Rows of the table of runs; `history` prints all."""


@dataclass(frozen=True)
class Page:
    """A page (or file to download) that is made when it is asked for."""

    content: str
    """Its media type."""
    make: Callable[[], bytes]


class Site:
    """The pages of a store, read through one session: what is not asked for is not made."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def pages(self) -> dict[str, Page]:
        """All pages by address, in an order that does not change. An address that is not here does not exist."""
        found = {addresses.INDEX: _html(self._index), addresses.BISECTIONS: _html(self._bisections)}
        for name in self._session.scalars(select(Bisection.name).order_by(Bisection.id)):
            found[addresses.bisection(name)] = _html(lambda name=name: self._bisection(name))
            for side in ("good", "bad"):
                found[addresses.script(name, side)] = Page(
                    "text/plain; charset=utf-8", lambda name=name, side=side: self._script(name, side)
                )
        for repository, sha in sorted(self._commits):
            found[addresses.commit(repository, sha)] = _html(
                lambda repository=repository, sha=sha: self._commit(repository, sha)
            )
        return found

    @cached_property
    def _commits(self) -> set[tuple[str, str]]:
        """The commits that any page speaks of."""
        known = {(row[0], row[1]) for row in self._session.execute(select(Commit.repository, Commit.sha))}
        known |= {
            (row[0], row[1])
            for row in self._session.execute(select(Probe.repository, Probe.commit).distinct())
        }
        for repository, good, bad in self._session.execute(
            select(Stage.repository, Stage.good, Stage.bad).distinct()
        ):
            known |= {(repository, good), (repository, bad)}
        for repository, good, bad in self._session.execute(
            select(Bisection.repository, Bisection.good, Bisection.bad)
        ):
            known |= {(repository, good), (repository, bad)}
        return known

    def _render(self, template: str, here: str, **values: Any) -> bytes:
        sections = (("Overview", addresses.INDEX), ("Bisections", addresses.BISECTIONS))
        return render(template, here, sections, **values)

    def _index(self) -> bytes:
        listed = list_bisections(self._session, limit=_FIRST_BISECTIONS + 1)
        return self._render(
            "index.html.j2",
            addresses.INDEX,
            listed=listed[:_FIRST_BISECTIONS],
            more=len(listed) > _FIRST_BISECTIONS,
        )

    def _bisections(self) -> bytes:
        return self._render("bisections.html.j2", addresses.BISECTIONS, listed=list_bisections(self._session))

    def _bisection(self, name: str) -> bytes:
        here = addresses.bisection(name)
        try:
            view = bisection_view(load_rows(self._session, name))
        except UserError as error:
            # One bisection of another version of the tool takes no other page away.
            return self._render("unreadable.html.j2", here, name=name, problem=str(error))
        runs = sorted(
            ((probe, run) for probe in view.report.probes for run in probe.runs),
            key=lambda each: each[1].ordinal,
        )
        by_ordinal = {run.ordinal: run for _, run in runs}
        return self._render(
            "bisection.html.j2",
            here,
            view=view,
            runs=runs,
            most_runs=_MOST_RUNS,
            run_of=by_ordinal.__getitem__,
        )

    def _script(self, name: str, side: str) -> bytes:
        try:
            found = both_sides(load_rows(self._session, name))
        except UserError:
            return b"# this bisection cannot be read; its page says why\nexit 1\n"
        shown = found.good if side == "good" else found.bad
        return (shown.script if shown else "# no run of this bisection showed this side\nexit 1\n").encode()

    def _commit(self, repository: str, sha: str) -> bytes:
        return self._render(
            "commit.html.j2",
            addresses.commit(repository, sha),
            view=commit_view(self._session, repository, sha),
            linked={known for of, known in self._commits if of == repository},
        )


def _html(make: Callable[[], bytes]) -> Page:
    return Page("text/html; charset=utf-8", make)
