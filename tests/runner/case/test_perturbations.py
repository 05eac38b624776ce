"""A run under a perturbation: what it changes reaches the case alone, and such runs are told from all others."""

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from precision_bisect.runner.case.case import (
    PERTURBATION_KEY,
    missing_requirements,
    perturbation_key,
    perturbed_content_key,
)
from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.runner.stack import Perturbation
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.store.vocabulary import Judgement, Verdict
from tests.runner.small_stack import SmallStack

SET = {"variables": {"FILL": "{platform}"}}
WRAPPED = {"command": ["env", "FILL=sim"]}
CASE = ["sh", "-c", '[ "$FILL" = sim ] && { echo WRONG y; exit 1; }; echo RIGHT']
STEP = {"build": {"command": ["sh", "-c", '[ -z "$FILL" ]'], "inputs": ["tool"]}}


def probe(small: SmallStack, perturbations: Mapping[str, Any], under: str | None) -> ProbeResult:
    """A probe of a case that fails where FILL is set, behind a step that does so too."""
    small.perturbations, small.steps, small.case = perturbations, STEP, {"command": CASE}
    revisions = small.revisions(small.workspace())
    with small.prober() as prober:
        return small.probe(
            prober, revisions=revisions if under is None else {**revisions, PERTURBATION_KEY: under}
        )


@pytest.mark.parametrize("perturbation", [SET, WRAPPED])
def test_what_it_changes_reaches_the_case_and_no_step(small: SmallStack, perturbation: Any) -> None:
    assert probe(small, {"fill": perturbation}, None).classification.verdict is Verdict.PASS
    under = probe(small, {"fill": perturbation}, "fill")
    assert under.classification.verdict is Verdict.MISMATCH


def test_where_what_it_needs_is_missing_nothing_is_run(small: SmallStack) -> None:
    needs = {**SET, "needs": ["/no/such/library.so"]}
    result = probe(small, {"fill": needs}, "fill")
    assert (result.judgement, result.command) == (Judgement.SKIP, ())
    assert result.classification.signature == "perturbation missing"
    assert "/no/such/library.so" in result.classification.evidence[0].text


def test_each_perturbation_has_contents_of_its_own_whatever_it_is_called(small: SmallStack) -> None:
    small.perturbations = {"a": SET, "b": WRAPPED, "as-a": SET}
    workspace = small.workspace()
    content = StackContent(workspace.stack, workspace)
    revisions = small.revisions(workspace)
    plain = content.revisions_key(revisions)
    under = {
        name: content.revisions_key({**revisions, PERTURBATION_KEY: name}) for name in small.perturbations
    }
    assert (
        under["a"]
        == under["as-a"]
        == perturbed_content_key(plain, perturbation_key(workspace.stack.perturbations["a"]))
    )
    assert len({plain, *under.values()}) == 3
    assert content.build_key(revisions) == content.build_key({**revisions, PERTURBATION_KEY: "a"})


def test_what_this_machine_lacks_is_told() -> None:
    here = shutil.which("env")
    assert here is not None
    there = Perturbation(variables={"A": "1"}, command=("env", "-i"), needs=(here,))
    assert missing_requirements(there) == []
    missing = Perturbation(command=("no-such-command",), needs=("/no/such/file", "env"))
    assert missing_requirements(missing) == ["no-such-command", "/no/such/file"]


def test_one_that_changes_nothing_is_refused(small: SmallStack) -> None:
    small.perturbations = {"nothing": {"needs": ["env"]}}
    with pytest.raises(ValueError, match="expected variables, or a command, found neither"):
        small.stack()
