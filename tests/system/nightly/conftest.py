"""A month of nights, for the tests of this folder."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.system.nightly.month import Month, remove


@pytest.fixture
def month(tmp_path: Path, shared_builds: Path) -> Generator[Month]:
    made = Month(tmp_path, shared_builds)
    yield made
    remove(made)
