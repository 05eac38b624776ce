"""Lines of commits whose runs can be held, for the tests of this folder."""

import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.system.slow_line import SlowLine


@pytest.fixture
def make(tmp_path: Path) -> Generator[Callable[..., SlowLine]]:
    """Make a line; its folders are removed when the test has passed."""

    def of(**options: object) -> SlowLine:
        return SlowLine(tmp_path, **options)  # type: ignore[arg-type]

    yield of
    shutil.rmtree(tmp_path, ignore_errors=True)
