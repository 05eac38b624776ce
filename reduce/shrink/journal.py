"""Every run of a reduction, on disk before what it showed is used: a later call repeats none of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from .minimize.answer import Answer

Key = tuple[str, int]
"""A reduction's key, and the number of the run of it."""


@dataclass
class TrialJournal:
    """Lines of JSON in `path`. A line that a kill left half written is dropped."""

    path: Path
    answers: dict[Key, Answer] = field(default_factory=dict[Key, Answer])

    @classmethod
    def open(cls, path: Path) -> TrialJournal:
        """Opens the journal of an earlier call, or a new one."""
        journal = cls(path)
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            entry = json.loads(line)
            journal.answers[entry["candidate"], entry["run"]] = Answer(entry["outcome"])
        if whole != text:
            os.truncate(path, len(whole))
        return journal

    def record(self, key: Key, answer: Answer) -> None:
        """Writes one run through to the disk."""
        with self.path.open("ab") as file:
            file.write(
                json.dumps({"candidate": key[0], "run": key[1], "outcome": answer.value}).encode() + b"\n"
            )
            file.flush()
            os.fsync(file.fileno())
        self.answers[key] = answer
