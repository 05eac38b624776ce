"""The `[[verdicts]]` tables of a stack file: which printed line means which verdict."""

import re
import string
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...store.vocabulary import Verdict
from .ending import EndingKind

SUCCESSES = frozenset({Verdict.PASS, Verdict.NOT_VALIDATED})
EXCEPTION = "exception"
"""What a signature calls the run's exception; no group of a pattern may have this name."""


def _compile(pattern: object) -> object:
    """Compile text here for a message that shows the pattern; pydantic refuses what is no pattern at all."""
    if not isinstance(pattern, str):
        return pattern
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression, found {pattern!r}: {error}") from error
    if compiled.search("") is not None:
        raise ValueError(f"expected a pattern that needs some text, but {pattern!r} matches an empty line")
    return compiled


LinePattern = Annotated[re.Pattern[str], BeforeValidator(_compile)]


class VerdictRule(BaseModel):
    """One line pattern and the verdict it speaks for. In a list of rules the earlier one wins.

    Patterns are tried on one line at a time, without colours (`output_lines.plain_texts`).

    In a `mismatch` rule some group names have a meaning: `output` names the failing output, `outputs` holds
    a list of quoted names, `actual` a printed value (NaN and infinity are marked in the signature), `nan` and
    `inf` count such values; every other group of the rule, and of its `details`, is a number measured on
    the output named last. In a `stall` rule and its `details` the groups that `StallReport` knows tell the kind of
    wait and the kernels; they are put behind the signature.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Verdict
    pattern: LinePattern
    stream: Literal["any", "stdout", "stderr"] = "any"
    requires: LinePattern | None = None
    """The rule counts only if some other line of the output matches this."""
    unless: LinePattern | None = None
    """The rule does not count if some line of the output matches this."""
    endings: Annotated[tuple[EndingKind, ...], Field(min_length=1)] = ("exit",)
    """Ways for the process to end under which the rule may decide. A report that is complete once it is
    printed stands whatever happens later: it names all three."""
    chronological: bool = False
    """Of the rules that have this, the verdict decides whose line came first, whatever their order: for faults of which
    each may be what follows another. Such rules are meant for one stream: lines of two arrive in any order."""
    raised_in: LinePattern | None = None
    """The rule counts only for the line that ends a traceback, whose innermost frame is in a file that matches this."""
    signature: str | None = None
    """What tells one fault from another, with the pattern's named groups in braces; `{exception}` is the line that ends
    the first traceback of the run."""
    details: tuple[LinePattern, ...] = ()
    """Of a `mismatch`: lines after this one that describe the same output. Of a `stall`: lines anywhere that tell of
    the tasks that were left. For these two alone."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        groups = set(self.pattern.groupindex)
        if EXCEPTION in groups:
            raise ValueError(f"expected another name for the group {EXCEPTION}: that is the run's exception")
        for field in template_fields(self.signature or ""):
            if field not in groups | {EXCEPTION}:
                raise ValueError(
                    f"signature {self.signature!r}: expected named groups of the pattern, which has "
                    f"{', '.join(sorted(groups)) or 'none'}, found {{{field}}}"
                )
        if self.details and self.verdict not in (Verdict.MISMATCH, Verdict.STALL):
            raise ValueError(
                f"details belong to mismatch and stall rules, found them in a rule for {self.verdict}"
            )
        if self.verdict in SUCCESSES and self.endings != ("exit",):
            raise ValueError(f"endings cannot be set for {self.verdict}: it always needs exit code 0")
        return self

    @property
    def tells_exception(self) -> bool:
        """Whether the signature is not known before the run's first traceback is."""
        return EXCEPTION in template_fields(self.signature or "")

    def signature_of(self, match: re.Match[str], *, exception: str | None = None) -> str | None:
        """Fill the template from a match of `pattern`; None if there is none, or it comes out blank."""
        if self.signature is None:
            return None
        told = {**match.groupdict(), EXCEPTION: exception}
        named = {name: " ".join((value or "").split()) for name, value in told.items()}
        return self.signature.format_map(named).strip()[:200] or None


def template_fields(template: str) -> list[str]:
    """The names that a template has in braces.

    Raises:
        ValueError: broken braces, or a field that is more than a name.
    """
    fields: list[str] = []
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"expected group names in braces, found {template!r}: {error}") from error
    for _, field, format_spec, conversion in parts:
        if field is None:
            continue
        if not field.isidentifier() or format_spec or conversion:
            raise ValueError(f"expected a plain group name in braces, found {{{field}}} in {template!r}")
        fields.append(field)
    return fields
