"""Every run of a reduction, on disk before what it showed is used: a later call repeats none of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ....runner.errors import UserError
from ....store.documents.document import Document, read_document
from ....store.documents.versions import DocumentError
from ..minimize.answer import Answer

Key = tuple[str, int]
"""A reduction's key, and the number of the run of it."""


class JournaledRun(Document):
    """One run of a reduction, as a line of the journal."""

    schema_version: Literal[1] = 1
    candidate: str
    """A reduction's key."""
    run: int
    """The number of the run of it."""
    outcome: Answer


@dataclass
class TrialJournal:
    """A `JournaledRun` a line in `path`. A line that a kill left half written is dropped."""

    path: Path
    answers: dict[Key, Answer] = field(default_factory=dict[Key, Answer])

    @classmethod
    def open(cls, path: Path) -> TrialJournal:
        """Opens the journal of an earlier call, or a new one.

        Raises:
            UserError: a line is none that this version of the tool can read.
        """
        journal = cls(path)
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                run = read_document(JournaledRun, json.loads(line))
            except (DocumentError, ValueError) as error:
                raise UserError(f"{path}: {error}") from error
            journal.answers[run.candidate, run.run] = run.outcome
        if whole != text:
            os.truncate(path, len(whole))
        return journal

    def record(self, key: Key, answer: Answer) -> None:
        """Writes one run through to the disk."""
        run = JournaledRun(candidate=key[0], run=key[1], outcome=answer)
        with self.path.open("ab") as file:
            file.write(f"{run.model_dump_json()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self.answers[key] = answer
