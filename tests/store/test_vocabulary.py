"""What a verdict is like."""

import pytest

from precision_bisect.store.vocabulary import Verdict, VerdictTraits


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_answers_every_trait(verdict: Verdict) -> None:
    traits = verdict.traits
    assert len(traits) == len(VerdictTraits._fields)
    assert all(isinstance(trait, bool) for trait in traits)


@pytest.mark.parametrize("verdict", Verdict)
def test_traits_agree_with_each_other(verdict: Verdict) -> None:
    traits = verdict.traits
    assert not (traits.ends_well and traits.is_failure)
    assert traits.can_be_bad or not traits.is_failure
    assert traits.is_failure or not (traits.fails_in_run or traits.ends_early or traits.leaves_tensors)
    assert traits.judges_commit or not traits.is_failure
    assert traits.judges_commit or not traits.can_be_bad
    assert not traits.fails_to_build or not (traits.is_failure or traits.ends_well or traits.compares_outputs)
