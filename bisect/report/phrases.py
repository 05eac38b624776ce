"""Phrases that the Markdown report and the terminal share."""

import math
from datetime import datetime

from ..conclusion import PinRecord
from .model import AnswerCommit, Report, RunReport, Side

OUTCOMES = {
    "culprit": "culprit found",
    "suspect": "a suspect, not confirmed",
    "no_culprit": "no commit of the range explains it",
    "only_skipped": "only skipped commits are left",
    "ends_do_not_differ": "the ends do not differ",
    "budget": "stopped by its budget",
    "error": "error",
    "unfinished": "not finished",
}


def percent(probability: float) -> str:
    """A probability as people read it, never rounded up to certainty.

    >>> percent(0.99), percent(0.99996)
    ('99 %', '99.99 %')
    """
    return f"{math.floor(probability * 10_000 + 1e-6) / 100:g} %"


def confidence(commit: AnswerCommit, asked: float) -> str:
    """How sure it is, and how sure it had to be."""
    reached = "not stated" if commit.confidence is None else percent(commit.confidence)
    return f"{reached} ({percent(asked)} was asked)"


def day(moment: datetime) -> str:
    """The date, as ISO has it."""
    return f"{moment:%Y-%m-%d}"


def side_verdict(side: Side) -> str:
    """What the runs of a side showed."""
    runs = len(side.runs)
    signature = f" ({side.signature})" if side.signature else ""
    return f"{side.verdict}{signature}, {side.failures} of {runs} {'run' if runs == 1 else 'runs'} failed"


def pin_state(pin: PinRecord) -> str:
    """What the search did with a pin."""
    if pin.searched:
        return "searched"
    if pin.frozen_at is None:
        return "frozen, but says nothing at the bad end"
    return f"frozen at {pin.frozen_at} in every run"


def shown_run(report: Report, side: Side) -> RunReport:
    """The run of a side whose evidence is shown."""
    return next(run for probe in report.probes for run in probe.runs if run.ordinal == side.shown)


def evidence_texts(run: RunReport) -> list[str]:
    """The lines that justify a verdict, each once: streams repeat one another."""
    return list(dict.fromkeys(line.text for line in run.evidence))
