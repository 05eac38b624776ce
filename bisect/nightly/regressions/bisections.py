"""A night's bisections: of the culprit of what regressed, and of the fix of what has recovered.

They are driven together (`run.loop`), and know of each other: what one has built is cheap for all, and what one
suspects, or an open incident names, is looked at early by those whose range holds it.
"""

from collections.abc import Callable, Iterable

from ....runner.errors import UserError
from ....store.documents.document import read_document
from ....store.tables.nights import IncidentRow
from ...result import Conclusion
from ...run.loop import Loop
from ...run.session import open_workers
from ..terminal import SharedOutput
from .context import NightContext
from .tasks import FindCulprit, FindFix, RegressionTask, Submitted


def bisect_regressions(context: NightContext, *, jobs: int) -> list[str]:
    """Name the culprit of every open regression that has none, and what fixed every one that has recovered, with
    `jobs` runs at once; what could not be done, a sentence each."""
    problems = list[str]()
    tasks = _tasks(context, problems)
    if tasks:
        known = _known_culprits(context, context.journal.incidents.all(open_only=True))
        with open_workers(context.stack, context.home, jobs=jobs, backend="loky") as workers:
            loop = Loop(workers, built=context.journal.built_contents(), known_culprits=known, together=True)
            loop.run(tasks)
    return problems


def submit_regressions(context: NightContext, submit: Callable[[Submitted], None]) -> list[str]:
    """Leave the same to the queue, and keep what has ended there since the last night; what could not be done, a
    sentence each."""
    problems = list[str]()
    for task in _tasks(context, problems):
        try:
            task.hand_over(submit)
        except UserError as error:
            task.failed(error)
    return problems


def keep_regressions(context: NightContext) -> list[str]:
    """Keep what bisections have found that were left to the queue and have ended; what could not be done, a sentence
    each."""
    problems = list[str]()
    for task in _tasks(context, problems):
        task.keep_ended()
    return problems


def _tasks(context: NightContext, problems: list[str]) -> list[RegressionTask]:
    """What is to be bisected. `problems` collects what could not be done."""
    output, journal = SharedOutput(context.progress), context.journal
    culprits = [
        FindCulprit(context, regression, output=output, problems=problems)
        for regression in journal.regressions.all_open()
        if regression.incident_id is None and regression.problem is None
    ]
    fixes = [
        FindFix(context, regression, output=output, problems=problems)
        for regression in journal.regressions.recovered_without_fix()
    ]
    return [*culprits, *fixes]


def _known_culprits(context: NightContext, incidents: Iterable[IncidentRow]) -> list[tuple[str, str]]:
    """The commit of the searched repository at which the culprit of each incident comes in."""
    return [(context.stack.searched, _entry(incident)) for incident in incidents]


def _entry(incident: IncidentRow) -> str:
    through = read_document(Conclusion, incident.bisection.conclusion).through
    return through.commit if through else incident.culprit
