"""What `OUT/reduction.json` holds. Its schema is published as `docs/reduction.schema.json`.

python -m precision_bisect.reduce.shrink.result.reduction > docs/reduction.schema.json
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ....store.documents.document import Document
from ....store.documents.json_schema import published_schema


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Part):
    """A count before and after the reduction."""

    before: int
    after: int


class Baseline(_Part):
    """The whole program, straight-line: how many of its runs failed."""

    runs: int
    failures: int


class Verified(_Part):
    """Runs of the finished result: `failures` of the failing build, `passes` of its twin (null without a reference)."""

    runs: int
    failures: int
    passes: int | None


class Substituted(_Part):
    """Elements of a tensor that hold a recorded value in place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


class ReductionResult(Document):
    """The result. `failure` is what was looked for, `signature` what the result shows. `oracle_calls` were made by this
    call, `cached` were known from an earlier one; `invalid` and `slipped` count candidates' runs that could not be
    judged, or failed otherwise. `bytes` are those of all tensors. `extents` are sizes of dimensions and what they
    became, `blocks` tasks by number and in how many blocks they run now, `plain_inputs` tensors and what they hold,
    `statements_dropped` those of both builds' kernels, `rewritten_kernels` those whose text another program has made
    smaller. `kept_tasks` are submitted by the failing build; `missing_tasks`, by the good build's ordinals, are the
    twin's alone. `preloaded` are modules that tests were forked with; the result was verified in processes that were
    started anew."""

    schema_version: Literal[1] = 1
    failing_build: str
    reference: str | None
    stopped: Literal["done", "budget"]
    failure: str
    signature: str
    extents: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]
    plain_inputs: tuple[tuple[str, str], ...]
    statements_dropped: int
    rewritten_kernels: tuple[str, ...]
    kept_tasks: tuple[str, ...]
    missing_tasks: tuple[str, ...] = ()
    kernels_of_failing_build: tuple[str, ...]
    tasks: Size
    kernels: Size
    bytes: Size
    baseline: Baseline
    oracle_calls: int
    cached: int
    invalid: int
    slipped: int
    substituted: tuple[Substituted, ...]
    preloaded: tuple[str, ...]
    verified: Verified


def schema_text() -> str:
    """The JSON schema, as published."""
    return published_schema(ReductionResult)


if __name__ == "__main__":
    print(schema_text(), end="")
