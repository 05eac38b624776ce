"""Telling others of incidents: the job's command is called once for each that opened or closed in a night."""

from collections.abc import Generator
from contextlib import contextmanager

from filelock import FileLock

from ....store.tables.nights import NightRow
from ....store.words import plural
from ...after.hooks import call_hook
from ..config import NightlyConfig
from ..summary import HookReport, IncidentReport, incident_report
from .context import NightContext


@contextmanager
def alone_at_incidents(context: NightContext) -> Generator[None]:
    """Wait until no other process of this home closes, tells or writes incidents of the job: a night and a worker
    that keeps what it has found may be at it at once, and each incident is told once."""
    folder = context.home.state / "nightly"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{context.config.job}.incidents.lock"):
        yield


def tell_incidents(context: NightContext) -> list[str]:
    """Call the hook for what opened or closed in this night and was not told yet, up to the night's cap; what went
    wrong, a sentence each."""
    config, journal, night = context.config, context.journal, context.night
    notes = list[str]()
    if not config.on_incident:
        return notes
    calls = journal.nights.hook_calls(night.id)
    told = {(call.incident_id, call.event) for call in calls}
    left, untold = config.hooks_per_night - len(calls), 0
    every = journal.incidents.all()
    for incident in every:
        shown = incident_report(incident, night, every)
        if shown.event is None or (incident.id, shown.event) in told:
            continue
        if left <= 0:
            untold += 1
            continue
        left -= 1
        text = HookReport(job=config.job, night=night.ordinal, incident=shown).model_dump_json()
        code = call_hook(config.on_incident, text, _variables(config, night, shown))
        journal.nights.add_hook_call(night.id, incident.id, shown.event, code)
        if code != 0:
            notes.append(f"the hook ended with {code} for incident {incident.ordinal}")
    if untold:
        notes.append(
            f"the hook was not told of {plural(untold, 'incident')}: hooks_per_night is {config.hooks_per_night}"
        )
    return notes


def _variables(config: NightlyConfig, night: NightRow, incident: IncidentReport) -> dict[str, str]:
    """What a hook finds in its environment."""
    return {
        "JOB": config.job,
        "NIGHT": str(night.ordinal),
        "EVENT": incident.event or "",
        "INCIDENT": str(incident.number),
        "NAME": incident.bisection,
        "REPOSITORY": incident.repository,
        "CULPRIT": incident.culprit,
    }
