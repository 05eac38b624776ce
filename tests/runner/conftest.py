"""The small stack that tests of slots, builds and probes share."""

from pathlib import Path

import pytest

from precision_bisect.runner.workspace.home import Home
from tests.runner.small_stack import SmallStack


@pytest.fixture
def small(tmp_path: Path, home: Home) -> SmallStack:
    """A stack that a test may change before it is used."""
    return SmallStack(tmp_path / "stack", home)
