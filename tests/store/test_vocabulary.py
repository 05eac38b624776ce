"""What a verdict is like."""

from dataclasses import fields

import pytest

from precision_bisect.store.vocabulary import Verdict, VerdictTraits


def test_every_verdict_has_its_row() -> None:
    assert all(isinstance(verdict.traits, VerdictTraits) for verdict in Verdict)


@pytest.mark.parametrize("trait", [field.name for field in fields(VerdictTraits)])
def test_every_trait_tells_verdicts_apart(trait: str) -> None:
    assert {bool(getattr(verdict.traits, trait)) for verdict in Verdict} == {True, False}


@pytest.mark.parametrize("verdict", Verdict)
def test_traits_agree_with_each_other(verdict: Verdict) -> None:
    traits = verdict.traits
    assert not (traits.ends_well and traits.is_failure)
    assert traits.can_be_bad or not traits.is_failure
    assert traits.is_failure or not (traits.fails_in_run or traits.ends_early or traits.leaves_tensors)
    assert traits.judges_commit or not traits.is_failure
    assert traits.judges_commit or not traits.can_be_bad
    assert traits.is_failure or not traits.device_or_program
    assert traits.judges_commit or traits.may_be_device
    assert not traits.fails_to_build or not (traits.is_failure or traits.ends_well or traits.compares_outputs)


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict.traits.remedy is not None])
def test_a_remedy_is_the_beginning_of_a_sentence_about_a_resume(verdict: Verdict) -> None:
    remedy = verdict.traits.remedy
    assert remedy is not None
    assert remedy[0].islower()
    assert remedy[-1] not in ".,;"
