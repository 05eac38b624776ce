"""Reads the recorded outputs under `corpus/`.

A file starts with `key: value` lines (`about`, `stack`, `verdict`, `signature`, `ending` - `exit N`,
`signal NAME` or `timeout` -, any number of `metric: OUTPUT MEASURE VALUE`, and of `call: JSON`, what the harness
returned, over the defaults below), then `---`, then the lines of output in their order of arrival: `1| ` on standard
output, `2| ` on standard error, `1x| ` and `2x| ` with backslash escapes for bytes.
"""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

from precision_bisect.runner.verdict.classify import HarnessOutcome
from precision_bisect.runner.verdict.rules import Ending
from precision_bisect.store.vocabulary import Stream, Verdict

CORPUS = Path(__file__).with_name("corpus")

_CALL = {
    "finished": True,
    "passed": None,
    "validated": False,
    "error": None,
    "work_dir": None,
    "execution_time": None,
    "exception": None,
    "applied": {},
    "replaced": {},
    "not_applied": {},
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    name: str
    stack: str
    verdict: Verdict
    signature: str | None
    ending: Ending
    metrics: dict[tuple[str, str], float]
    outcome: HarnessOutcome | None
    lines: list[tuple[Stream, str]]


def read_recorded(path: Path) -> Recorded:
    header, _, body = path.read_text(encoding="utf-8").partition("---\n")
    single: dict[str, str] = {}
    metrics: dict[tuple[str, str], float] = {}
    calls: list[dict[str, object]] = []
    for line in header.splitlines():
        key, _, value = line.partition(": ")
        if key == "metric":
            output, measure, number = value.split()
            metrics[output, measure] = float(number)
        elif key == "call":
            calls.append({**_CALL, **json.loads(value)})
        else:
            single[key] = value
    return Recorded(
        name=path.stem,
        stack=single["stack"],
        verdict=Verdict(single["verdict"]),
        signature=single.get("signature"),
        ending=read_ending(single["ending"]),
        metrics=metrics,
        outcome=search_outcome(*calls) if calls else None,
        lines=[_line(line) for line in body.split("\n")[:-1]],
    )


def read_ending(text: str) -> Ending:
    kind, _, what = text.partition(" ")
    return Ending(
        exit_code=int(what) if kind == "exit" else None,
        signal=signal.Signals[what].value if kind == "signal" else None,
        timed_out=kind == "timeout",
    )


def search_outcome(*calls: dict[str, object]) -> HarnessOutcome:
    interpreter = {"executable": "/usr/bin/python3", "version": "3.11.7", "implementation": "CPython"}
    document = {
        "schema_version": 1,
        "interpreter": interpreter,
        "calls": [{**_CALL, **call} for call in calls],
    }
    return HarnessOutcome.model_validate_json(json.dumps(document))


def _line(line: str) -> tuple[Stream, str]:
    mark, _, text = line.partition("|")
    stream: Stream = "stdout" if mark[0] == "1" else "stderr"
    text = text[1:]
    if mark.endswith("x"):
        text = text.encode("latin-1").decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
    return stream, text
