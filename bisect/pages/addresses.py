"""The address of each page, relative to the root of the site.

Names that other people chose become plain file names without slash or dot.
"""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_READABLE_LENGTH = 48
"""An address keeps this many characters of a name. With the digest it stays below the 255 bytes of a file name."""
_DIGEST_LENGTH = 10
"""An address has this many digits of a digest. With 40 bits, two names of one site do not meet by chance."""

INDEX = "index.html"
BISECTIONS = "bisections.html"
QUEUE = "queue.html"
QUEUE_EVENTS = "queue-events"
"""A server sends each change of the queue as a stream of events at this address."""
QUEUE_ENTRIES = "queue.json"
"""A server alone has the queue for machines at this address. One submission is `queue/ID.json`."""


def slug(text: str) -> str:
    """Return a unique file name for a text, which begins with the readable part of the text.

    >>> slug("../../etc/passwd")
    'etc-passwd-3754d6cb3a'
    """
    readable = _UNSAFE.sub("-", text).strip("-")[:_MAX_READABLE_LENGTH].rstrip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{readable}-{digest}" if readable else digest


def bisection(name: str) -> str:
    """Return the address of the page of a bisection."""
    return f"bisections/{slug(name)}.html"


def script(name: str, side: str) -> str:
    """Return the address of the script that reproduces one side (`good` or `bad`) of a bisection's answer."""
    return f"bisections/{slug(name)}-reproduce-{side}.sh"


def task_graph(name: str) -> str:
    """Return the address of the task graph of a bisection's culprit."""
    return f"bisections/{slug(name)}-tasks.html"


def reduced_build(name: str) -> str:
    """Return the address of the archive with the reduced build of a bisection's culprit."""
    return f"bisections/{slug(name)}-reduced.tar.gz"


def commit(repository: str, sha: str) -> str:
    """Return the address of the page of a commit."""
    return f"commits/{slug(repository)}/{slug(sha)}.html"


def job(name: str) -> str:
    """Return the address of the overview of a nightly job."""
    return f"jobs/{slug(name)}.html"


def month(name: str, when: str) -> str:
    """Return the address of the nights of a job in one month, such as `2026-03`."""
    return f"jobs/{slug(name)}-{when}.html"


def case(name: str, cell: int) -> str:
    """Return the address of the page of a job's cell, which is a case on a platform."""
    return f"jobs/{slug(name)}/case-{cell}.html"


def incident(name: str, ordinal: int) -> str:
    """Return the address of the page of a job's incident."""
    return f"jobs/{slug(name)}/incident-{ordinal}.html"
