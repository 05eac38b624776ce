"""What a planted fault must show, read from the two builds and a full dump of each alone: nothing here uses the tool's
own readers or verdicts.

A kernel whose generated source differs makes the error itself: the first one submitted. Where kernels are the same, the
first task that reads what another task left than in the good build is fed wrong values, by the schedule or by a shared
buffer. Where everything generated is the same, the runtime is at fault: the first kernel that narrows to bfloat16 and
leaves other bits on the same inputs shows it, for that is what the fault planted in the runtime changes. (It changes
ties alone, so that the first one that narrows may happen to have none.)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_NAMES = re.compile(r'"func_id": (\d+),\s*"name": "(\w+)"')
_READING, _WRITING = ("INPUT", "INOUT"), ("OUTPUT", "INOUT", "OUTPUT_EXISTING")
Bits = dict[tuple[int, int, str], bytes]


def planted(good: Path, bad: Path, good_runs: Path, bad_runs: Path) -> tuple[str, str]:
    """Kernel that goes wrong first, and the class of its error.

    `*_runs` hold two runs of each build: `001` recorded the graph, `002` dumped everything.
    """
    names = {int(number): name for number, name in _NAMES.findall((bad / "kernel_config.py").read_text())}
    ids, tasks, reads = _graph(bad_runs)
    _, _, expected = _graph(good_runs)
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
    actual, right = _bits(bad_runs), _bits(good_runs)
    for task_id, task in zip(ids, tasks, strict=True):
        own = {key for key in actual if key[0] == task_id}
        unequal = {key[2] for key in own if actual[key] != right[key]}
        if names[task] in narrowing and unequal == {"after_completion"}:
            return names[task], "introduced"
    raise AssertionError(f"{bad}: no difference from {good} shows")


def _source(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def _graph(runs: Path) -> tuple[list[int], list[int], list[list[int | None]]]:
    """Id and kernel of each task as submitted; and for each, by what it reads, the last task that wrote there."""
    (file,) = (runs / "001").rglob("deps.json")
    found: list[dict[str, Any]] = json.loads(file.read_text())["tasks"]
    running = [task for task in found if max(task["kernel_ids"]) >= 0]
    writers: dict[tuple[str, int], int] = {}
    reads: list[list[int | None]] = []
    for number, task in enumerate(running):
        arguments = [argument for argument in task["args"] if "tensor_id" in argument]
        place = {argument["idx"]: (argument["tensor_id"], argument["start_offset"]) for argument in arguments}
        reads.append([writers.get(place[one["idx"]]) for one in arguments if one["type"] in _READING])
        writers.update({place[one["idx"]]: number for one in arguments if one["type"] in _WRITING})
    return [int(task["task_id"]) for task in running], [max(task["kernel_ids"]) for task in running], reads


def _bits(runs: Path) -> Bits:
    """All tensors of a dump of everything, by task, argument and stage."""
    (index,) = (runs / "002").rglob("args_dump.json")
    found: dict[str, Any] = json.loads(index.read_text())
    payload = (index.parent / found["bin_file"]).read_bytes()
    return {
        (int(record["task_id"], 16), record["arg_index"], record["stage"]): payload[
            record["bin_offset"] : record["bin_offset"] + record["bin_size"]
        ]
        for record in found["args"]
        if record["kind"] == "tensor"
    }
