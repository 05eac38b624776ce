"""The queue: bisections that were submitted, to be driven by whichever worker takes them, and who may submit."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ..vocabulary import SubmissionState
from .nights import Base


class SubmissionRow(Base):
    """One call of `bisect-precision` that a worker makes later. Its bisection will have the name `bisection`."""

    __tablename__ = "submissions"

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection: Mapped[str] = mapped_column(String(64), unique=True)
    user: Mapped[str] = mapped_column(String(64))
    words: Mapped[list[str]]
    """The words of the command without its name."""
    afterwards: Mapped[list[str]] = mapped_column(default=list, server_default="[]")
    """The words of the command that its worker runs once it has ended, such as that of the night which waits for it."""
    folder: Mapped[str] = mapped_column(Text)
    """Where they were typed."""
    priority: Mapped[int]
    board: Mapped[str | None] = mapped_column(String(64))
    """The platform whose boards it needs one of; None: it runs on a simulator."""
    device: Mapped[int | None]
    """The board's number; None: any board will do. A bisection that has begun stays on its board."""
    created: Mapped[datetime]
    state: Mapped[SubmissionState]
    cancelling: Mapped[bool]
    """Whether it was cancelled while it ran: its worker stops it."""
    exit_code: Mapped[int | None]
    """Of the call, once it has ended."""
    finished: Mapped[datetime | None]

    place: Mapped[str | None] = mapped_column(String(64))
    """The home that holds its golden data and logs, once it has begun: it goes on there."""
    lacking: Mapped[str | None] = mapped_column(Text)
    """While it waits: a machine that could not run it, and why."""
    worker: Mapped[str | None] = mapped_column(String(128))
    """Who runs it, while it runs."""
    host: Mapped[str | None]
    """Whose boards it uses, while it runs."""
    started: Mapped[datetime | None]
    """When its worker took it, while it runs."""
    lease: Mapped[datetime | None]
    """Until when the worker has it; one that is not heard of by then has lost it."""
    lost: Mapped[int]
    """How many workers were lost while they ran it."""
    seconds: Mapped[float]
    """How long it has run, with workers that have let go of it."""
    tail: Mapped[str] = mapped_column(Text)
    """The last lines of its log."""


class TokenRow(Base):
    """Who may write to the queue by way of a server: whoever shows the token, of which only the digest is kept."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    """SHA-256 of the token. It is drawn, not thought of, so that nobody can guess what has the digest."""
    created: Mapped[datetime]
    revoked: Mapped[datetime | None]
