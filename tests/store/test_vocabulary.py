"""What a verdict is like."""

from dataclasses import astuple, fields

import pytest

from precision_bisect.store.vocabulary import Verdict, VerdictTraits


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_answers_every_trait(verdict: Verdict) -> None:
    assert all(isinstance(trait, bool) for trait in astuple(verdict.traits))


@pytest.mark.parametrize("trait", [field.name for field in fields(VerdictTraits)])
def test_every_trait_tells_verdicts_apart(trait: str) -> None:
    assert {getattr(verdict.traits, trait) for verdict in Verdict} == {True, False}


@pytest.mark.parametrize("verdict", Verdict)
def test_traits_agree_with_each_other(verdict: Verdict) -> None:
    traits = verdict.traits
    assert not (traits.ends_well and traits.is_failure)
    assert traits.can_be_bad or not traits.is_failure
    assert traits.is_failure or not (traits.fails_in_run or traits.ends_early or traits.leaves_tensors)
    assert traits.judges_commit or not traits.is_failure
    assert traits.judges_commit or not traits.can_be_bad
    assert not traits.fails_to_build or not (traits.is_failure or traits.ends_well or traits.compares_outputs)
