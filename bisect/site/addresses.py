"""Where each page lies, relative to the site's root. Names of others become plain ones, without slash or dot."""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_READABLE = 48
_DIGEST = 10

INDEX = "index.html"
BISECTIONS = "bisections.html"
QUEUE = "queue.html"
QUEUE_EVENTS = "queue-events"
"""What becomes of the queue, told by a server as it happens."""
QUEUE_ENTRIES = "queue.json"
"""The queue for machines, from a server; one submission is `queue/ID.json`."""


def slug(text: str) -> str:
    """A file name that no two texts share, with as much of the text as can be read.

    >>> slug("../../etc/passwd")
    'etc-passwd-3754d6cb3a'
    """
    readable = _UNSAFE.sub("-", text).strip("-")[:_READABLE].rstrip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{readable}-{digest}" if readable else digest


def bisection(name: str) -> str:
    """The page of one bisection."""
    return f"bisections/{slug(name)}.html"


def script(name: str, side: str) -> str:
    """The script that shows one side (`good` or `bad`) of a bisection's answer again."""
    return f"bisections/{slug(name)}-reproduce-{side}.sh"


def task_graph(name: str) -> str:
    """The task graph of a bisection's culprit."""
    return f"bisections/{slug(name)}-tasks.html"


def reduced(name: str) -> str:
    """The reduced build of a bisection's culprit, as an archive."""
    return f"bisections/{slug(name)}-reduced.tar.gz"


def commit(repository: str, sha: str) -> str:
    """The page of a commit."""
    return f"commits/{slug(repository)}/{slug(sha)}.html"


def job(name: str) -> str:
    """The overview of a nightly job."""
    return f"jobs/{slug(name)}.html"


def month(name: str, when: str) -> str:
    """The nights of a job in one month, such as `2026-03`."""
    return f"jobs/{slug(name)}-{when}.html"


def case(name: str, cell: int) -> str:
    """The page of a cell of a job: a case on a platform."""
    return f"jobs/{slug(name)}/case-{cell}.html"


def incident(name: str, ordinal: int) -> str:
    """The page of an incident of a job."""
    return f"jobs/{slug(name)}/incident-{ordinal}.html"
