"""A build directory, and what runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .toolchain import Toolchain


@dataclass(frozen=True, kw_only=True)
class RunnableBuild:
    """A build directory that has not been copied or run yet."""

    path: Path
    toolchain: Toolchain
