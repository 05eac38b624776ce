"""What a planted fault must show, read from the two builds alone: nothing here uses the tool's own readers or verdicts.

A kernel whose generated source differs makes the error itself: the first one submitted. Where kernels are the same, the
first task that reads what another task left than in the good build is fed wrong values, by the schedule or by a shared
buffer. Where everything generated is the same, the runtime is at fault: the first kernel that narrows to bfloat16 shows
it, for that is what the fault planted in the runtime changes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_NAMES = re.compile(r'"func_id": (\d+),\s*"name": "(\w+)"')
_READING, _WRITING = ("INPUT", "INOUT"), ("OUTPUT", "INOUT", "OUTPUT_EXISTING")


def planted(good: Path, bad: Path, good_graph: Path, bad_graph: Path) -> tuple[str, str]:
    """Kernel that goes wrong first, and the class of its error. `*_graph` are the `deps.json` of one run of each."""
    names = {int(number): name for number, name in _NAMES.findall((bad / "kernel_config.py").read_text())}
    tasks, reads = _reads(bad_graph)
    _, expected = _reads(good_graph)
    changed = {
        file.stem
        for file in (bad / "kernels").rglob("*.cpp")
        if _source(file) != _source(good / file.relative_to(bad))
    }
    for task in tasks:
        if names[task] in changed:
            return names[task], "introduced"
    for task, ours, theirs in zip(tasks, reads, expected, strict=True):
        if ours != theirs:
            return names[task], "interaction"
    narrowing = {
        file.stem for file in (bad / "kernels").rglob("*.cpp") if "round_to_bf16" in file.read_text()
    }
    return next(names[task] for task in tasks if names[task] in narrowing), "introduced"


def _source(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def _reads(graph: Path) -> tuple[list[int], list[list[int | None]]]:
    """Kernel of each task in submission order; and for each, by what it reads, the last task that wrote there."""
    found: list[dict[str, Any]] = json.loads(graph.read_text())["tasks"]
    running = [task for task in found if max(task["kernel_ids"]) >= 0]
    writers: dict[tuple[str, int], int] = {}
    reads: list[list[int | None]] = []
    for number, task in enumerate(running):
        arguments = [argument for argument in task["args"] if "tensor_id" in argument]
        place = {argument["idx"]: (argument["tensor_id"], argument["start_offset"]) for argument in arguments}
        reads.append([writers.get(place[one["idx"]]) for one in arguments if one["type"] in _READING])
        writers.update({place[one["idx"]]: number for one in arguments if one["type"] in _WRITING})
    return [max(task["kernel_ids"]) for task in running], reads
