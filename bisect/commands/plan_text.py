"""What `--dry-run` prints."""

import json
from collections.abc import Iterator

from ..engine.bisection import Bisection
from ..plan.pins import told_value
from ..plan.predicate import BAD_EXIT_CODES
from ..plan.question import Plan
from ..plan.request import BisectRequest
from ..run.driven import question_of
from ..run.view.ends_in_vain import describe_waits
from ..run.view.estimate import estimate_of, opened
from ..run.view.words import Estimate, describe_estimate, describe_stage


def plan_lines(plan: Plan) -> Iterator[str]:
    """The lines of a plan: what is run, over which range, with which pins, and how many probes it will take."""
    request = plan.request
    yield f"stack:     {request.stack.name}"
    yield f"case:      {request.case_text}"
    yield f"platform:  {request.platform}, device {request.device}"
    yield from _range_lines(plan)
    yield from _pin_lines(request)
    yield f"bad when:  {request.says_bad or BAD_EXIT_CODES}"
    captured = "captured at the good end" if request.captures_golden else "none"
    yield f"golden:    {request.golden_data or captured}"
    yield from _probes(plan)
    made = "" if plan.is_named else "; a new name is made when it is begun, or name it with --output"
    yield f"report to: {request.output}{made}"
    for notice in plan.notices:
        yield f"note: {notice}"


def plan_json(plan: Plan) -> str:
    """The plan for machines."""
    request, loaded = plan.request, plan.range
    _, estimate = _estimated(plan)
    return json.dumps(
        {
            "stack": request.stack.name,
            "case": request.case_text,
            "platform": request.platform,
            "device": request.device,
            "repository": request.repository,
            "good": request.good if loaded is not None else None,
            "bad": request.bad,
            "commits": len(loaded.commits) if loaded is not None else None,
            "candidates": len(loaded.collapsed.nodes) if loaded is not None else None,
            "bad_when": request.says_bad or BAD_EXIT_CODES,
            "confidence": request.confidence,
            "runs": None if estimate is None else estimate.runs,
            "frozen": dict(request.frozen),
            "output": str(request.output) if plan.is_named else None,
            "notices": plan.notices,
        },
        indent=2,
    )


def _range_lines(plan: Plan) -> Iterator[str]:
    request, loaded = plan.request, plan.range
    if loaded is None:
        yield f"range:     {request.repository} ..{request.bad[:12]}"
        yield f"           the good end is looked for 1, 2, 4, ... {request.gallop} before the bad one"
        return
    yield f"range:     {request.repository} {loaded.range.old[:12]}..{loaded.range.new[:12]}"
    candidates = len(loaded.collapsed.nodes)
    yield f"           {describe_stage(request.repository, commits=len(loaded.commits), candidates=candidates)}"


def _pin_lines(request: BisectRequest) -> Iterator[str]:
    for name, pin in request.stack.pins.items():
        value = told_value(request.stack, name, request.frozen.get(request.stack.held_name(name)))
        frozen = f"frozen at {value}" if value is not None else "frozen, but says nothing at the bad end"
        yield f"pin:       {name} {'searched' if pin.search else frozen}"


def _probes(plan: Plan) -> Iterator[str]:
    """What will be run, as the engine itself goes about it."""
    if plan.range is None:
        yield "runs:      to find the good end, then as many as its range takes"
        return
    bisection, estimate = _estimated(plan)
    if bisection is not None and estimate is not None:
        yield f"runs:      {describe_estimate(estimate)}"
        yield "           where every run of a commit tells the same; more where not"
        if offered := bisection.known.question.perturbations:
            names = ", ".join(each.name for each in offered)
            yield f"           where it comes and goes, perturbations are tried: {names}"
        if waits := describe_waits(bisection):
            yield f"           {waits}"
    yield f"           until a confidence of {plan.request.confidence:g}"


def _estimated(plan: Plan) -> tuple[Bisection | None, Estimate | None]:
    """The bisection as it begins, and what is to come of it; None as far as that cannot be said yet."""
    bisection = None if plan.range is None else opened(question_of(plan.request), plan.range)
    builds = bool(plan.request.stack.steps)
    return bisection, None if bisection is None else estimate_of(bisection, builds=builds)
