"""The queue as it changes: server-sent events (HTML Living Standard, 9.2), each the list as the page shows it."""

import json
from collections.abc import Callable, Iterator

from sqlalchemy.orm import Session, sessionmaker

from ...store.journals.queue.entries import queue_entries
from . import addresses
from .render import render_part
from .views.queue import MOST_OVER

LOOK = 1.0
"""Seconds between two looks at the queue."""
_STILL = 15
"""Looks without a change after which something is sent, so that both sides see whether the other is there."""


def queue_events(sessions: sessionmaker[Session], wait: Callable[[float], bool]) -> Iterator[bytes]:
    """An event each time that the list changes, until `wait` says that the server ends."""
    shown, still = "", 0
    while True:
        with sessions() as session:
            entries = queue_entries(session, most_over=MOST_OVER)
            text = render_part("parts/queue_list.html.j2", addresses.QUEUE, entries=entries[::-1])
        still += 1
        if text != shown:
            yield f"data: {json.dumps(text)}\n\n".encode()
            shown, still = text, 0
        elif still >= _STILL:
            yield b": still here\n\n"
            still = 0
        if wait(LOOK):
            return
