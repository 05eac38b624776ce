"""The site as a folder of files, each wholly written or not at all; those that would not change are left alone."""

import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...store.files import write_whole
from .pages import Site

_GENERATED = re.compile(rb'<span class="generated">[^<]*</span>')
"""As templates/parts/base.html.j2 has it."""


@dataclass(frozen=True, kw_only=True)
class SiteBuild:
    """What writing the site did: how many pages it has, how many files changed, and the largest page with its size in
    bytes."""

    pages: int
    changed: int
    largest: str
    largest_bytes: int


def write_site(sessions: sessionmaker[Session], directory: Path) -> SiteBuild:
    """Write all pages. Raises `UserError` where the folder cannot be written."""
    changed, largest, largest_bytes = 0, "", 0
    try:
        with sessions() as session:
            pages = Site(session).pages
            for address, page in pages.items():
                content = page.make()
                session.expunge_all()
                changed += _write(directory / address, content)
                if len(content) > largest_bytes:
                    largest, largest_bytes = address, len(content)
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write pages to: {error.strerror}; name another one with --html"
        ) from error
    return SiteBuild(pages=len(pages), changed=changed, largest=largest, largest_bytes=largest_bytes)


def _write(file: Path, content: bytes) -> bool:
    """Write the page; say whether it changed. One that differs only in the time at which it was made is left alone."""
    if file.is_file() and _GENERATED.sub(b"", file.read_bytes()) == _GENERATED.sub(b"", content):
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, content)
    return True
