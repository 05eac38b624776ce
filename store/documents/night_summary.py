"""What a night leaves behind beside its rows."""

from typing import Literal

from .document import Document


class NightSummary(Document):
    """`notes` say what was left undone and why, a sentence each."""

    schema_version: Literal[1] = 1
    notes: tuple[str, ...] = ()
