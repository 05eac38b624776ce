"""Incidents: regressions with one culprit. Localized once, and closed when all of them have recovered."""

from contextlib import ExitStack

from rich.text import Text

from ....runner.errors import UserError
from ....store.documents.document import read_document, write_document
from ....store.tables.nights import IncidentRow
from ...after.hand_over import localize_culprit
from ...after.reducible import leave_builds
from ...report.write import write_report
from ...result import Conclusion
from ..terminal import say
from .context import NightContext


def localize_incidents(context: NightContext) -> list[str]:
    """Localize and reduce each open incident once, by the bisection that opened it; what was not, a sentence each.

    Raises `OutOfTimeError`.
    """
    problems: list[str] = []
    note_reductions(context)
    for incident in context.journal.incidents.all(open_only=True):
        if read_document(Conclusion, incident.bisection.conclusion).localization is not None:
            continue
        context.limits.check()
        bisection = context.bisection(incident.bisection_id)
        with ExitStack() as held:
            try:
                held.enter_context(bisection.lock())
            except UserError as error:  # by a worker of the queue, which localizes it
                problems.append(f"incident {incident.ordinal} is not localized here: {error}")
                continue
            localized = localize_culprit(
                context.sessions,
                bisection.name,
                home=context.home,
                reduce=True,
                seconds=context.limits.left(),
                say=lambda text: say(context.progress, Text(text)),
            )
            # One that the night's end cut short is begun again tomorrow.
            context.limits.check()
            bisection.journal.note_localization(write_document(localized))
        leave_builds(context.sessions, bisection.name, context.home)
        write_report(context.sessions, bisection.name, bisection.request.output)
        if localized.reduced is not None:
            context.journal.incidents.set_reduction(incident.id, str(localized.reduced))
        elif localized.status == "left out":
            problems.append(f"incident {incident.ordinal} is not localized: {localized.message}")
    return problems


def note_reductions(context: NightContext) -> None:
    """Note the reduction of each open incident whose bisection a worker of the queue has localized and reduced."""
    for incident in context.journal.incidents.all(open_only=True):
        known = read_document(Conclusion, incident.bisection.conclusion).localization
        if incident.reduction is None and known is not None and known.reduced is not None:
            context.journal.incidents.set_reduction(incident.id, str(known.reduced))


def close_incidents(context: NightContext) -> None:
    """Close the incidents whose regressions have all recovered, and name what fixed those that were closed before it
    was known."""
    for incident in context.journal.incidents.all():
        fixed_by = _common_fix(incident)
        if incident.closed_night_id is not None:
            if incident.fixed_by is None and fixed_by is not None:
                context.journal.incidents.set_fix(incident.id, fixed_by)
        elif all(regression.recovered_night_id is not None for regression in incident.regressions):
            context.journal.incidents.close(incident.id, night=context.night.id, fixed_by=fixed_by)


def _common_fix(incident: IncidentRow) -> str | None:
    """The commit that fixed all regressions of an incident; None where they have several, or one is not known."""
    fixes = {regression.fixed_by for regression in incident.regressions}
    return fixes.pop() if len(fixes) == 1 else None
