"""Makes a verdict and its judgement of what a run printed and how it ended; and verdicts where nothing was run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...store import words
from ...store.vocabulary import Evidence, Judgement, Verdict
from ..case.case import CaseName
from ..verdict.compiler_errors import compiler_errors
from ..verdict.harness_outcome import HarnessOutcome
from ..verdict.verdict import Classification, Classifier, Ending
from .bad_when import NOT_RUN, BadWhen, judge_exit_code

_PREDICATE_VERDICTS = {
    Judgement.GOOD: Verdict.PASS,
    Judgement.BAD: Verdict.MISMATCH,
    Judgement.SKIP: Verdict.UNKNOWN,
}

_PATCH_CONFLICT = "cherry-pick: "
"""How the signature of a patch that does not apply begins."""
_LONGEST = 160
"""Letters of a signature."""

BY_PERSON = "judged by a person"
"""The signature of what a person judged."""
NOT_JUDGED = Classification(verdict=Verdict.UNKNOWN, signature=None, evidence=(), metrics={})
"""Of what a person has yet to run."""


class Listener:
    """Hands output to the classifier, and watches for the pattern that may say what is bad.

    `begins` is the line before the case's own, in each stream; None: all lines are the case's.
    """

    def __init__(
        self, classifier: Classifier, bad_when: BadWhen | None, *, begins: str | None = None
    ) -> None:
        self._classifier = classifier
        self._bad_when = bad_when
        self._matched = False
        self._begins = begins
        self._begun: set[str] = set()
        self._lines = 0

    @property
    def case_began(self) -> bool:
        """Whether the case was reached."""
        return self._begins is None or bool(self._begun)

    def feed(self, stream: str, line: str) -> None:
        """Take one line of the run."""
        self._lines += 1
        if self._begins is not None and stream not in self._begun:
            if line.rstrip("\r\n") == self._begins:
                self._begun.add(stream)
            return
        self._classifier.feed_numbered("stdout" if stream == "stdout" else "stderr", self._lines, line)
        if self._bad_when is not None and not self._matched:
            self._matched = self._bad_when.matches_line(line)

    def skims(self, stream: str, lines: bytes) -> bool:
        """Take whole lines at once, if that has the same effect as one by one. Else none is taken."""
        if self._begins is not None or (self._bad_when is not None and self._bad_when.regex is not None):
            return False
        first = self._lines + 1
        if not self._classifier.skim("stdout" if stream == "stdout" else "stderr", first, lines):
            return False
        self._lines += lines.count(b"\n")
        return True

    def finish(
        self, ending: Ending, outcome: HarnessOutcome | None, *, kernels: Mapping[int, str]
    ) -> tuple[Classification, Judgement]:
        """The verdict and the judgement of the whole run. `kernels` are the names of its kernels by function id."""
        found = self._classifier.finish(ending, outcome, kernels=kernels)
        if self._bad_when is not None:
            judgement = self._bad_when.judge(found, matched_regex=self._matched)
            lacks = self._bad_when.lacks(found)
            return found if lacks is None else replace(found, signature=lacks), judgement
        if ending.timed_out:
            return found, Judgement.SKIP
        exit_code = ending.exit_code if ending.exit_code is not None else -(ending.signal or 0)
        judgement = judge_exit_code(exit_code)
        found = replace(found, verdict=_PREDICATE_VERDICTS[judgement], signature=None)
        if exit_code in NOT_RUN:
            found = replace(
                found,
                signature=f"{words.exit_code(exit_code)}: the command {NOT_RUN[exit_code]} at this commit",
            )
        elif judgement is not Judgement.GOOD:
            found = replace(found, signature=_ending(exit_code, found.evidence))
        return found, judgement


def _ending(exit_code: int, evidence: Iterable[Evidence]) -> str:
    """What tells one failure, or skip, of a predicate from another: its exit code, and what a compiler said first."""
    errors = compiler_errors(said.text for said in evidence)
    code = words.exit_code(exit_code)
    return f"{code}: {errors[0].message}"[:_LONGEST] if errors else code


def names_error(signature: str | None) -> bool:
    """Whether the signature of a predicate's failure says, beside its exit code, what a compiler said."""
    return signature is not None and ": " in signature


def case_missing(case: CaseName) -> Classification:
    """The commit has no such case."""
    return _untestable(
        "case missing",
        text=f"no {case.path} at this commit",
        why="the case does not exist here, so nothing was run",
    )


def perturbation_missing(lacks: Sequence[str]) -> Classification:
    """The machine lacks what the run's perturbation needs."""
    evidence = Evidence(
        stream="ending",
        line=0,
        text=f"no {', '.join(lacks)} on this machine",
        why="the perturbation of this run needs it, so nothing was run",
    )
    return Classification(
        verdict=Verdict.UNKNOWN, signature="perturbation missing", evidence=(evidence,), metrics={}
    )


def case_not_reached(ending: Ending) -> Classification:
    """What was to run before the case ended the process, or took all its time."""
    return _untestable(
        "case not reached",
        text=f"{_how_it_ended(ending)} before the case began",
        why="what --after names did not leave the process to the case",
    )


def _how_it_ended(ending: Ending) -> str:
    if ending.timed_out:
        return "the time was over"
    if ending.signal is not None:
        return f"signal {ending.signal} ended the process"
    return f"the process ended with exit code {ending.exit_code}"


def not_frozen(option: str, why: str) -> Classification:
    """The case cannot be held to the data, or the build directory, that `option` freezes."""
    signature = {"--golden-data": "data not frozen", "--runtime-dir": "build not frozen"}[option]
    return _untestable(
        signature, text=f"{option}: {why}", why=f"{signature}: a verdict would be of something else"
    )


def was_patch_conflict(signature: str | None) -> bool:
    """Whether a verdict says that a patch did not apply, so that nothing was built or run."""
    return signature is not None and signature.startswith(_PATCH_CONFLICT)


def submodule_missing(what: str) -> Classification:
    """A submodule is pinned at a commit that the checkout does not have."""
    return _untestable(what, text=what, why="with an empty folder in its place it is another experiment")


def patch_conflict(what: str) -> Classification:
    """A patch that was to unbreak the commit does not apply to it."""
    said = f"{_PATCH_CONFLICT}{what}"
    return _untestable(said, text=said, why="without the patch it is another experiment")


def _untestable(signature: str, *, text: str, why: str) -> Classification:
    """Nothing is known of the commit. text: what was found instead of a run's line; why: why that tells nothing."""
    evidence = Evidence(stream="ending", line=0, text=text, why=why)
    return Classification(
        verdict=Verdict.UNKNOWN, signature=signature[:_LONGEST], evidence=(evidence,), metrics={}
    )
