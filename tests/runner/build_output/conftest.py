"""Where the recorded files of real runs are; tests on them skip where that folder is absent."""

import os
from pathlib import Path

import pytest

_RECORDED = Path(os.environ.get("PRECISION_BISECT_RECORDED", "/work/shared/data"))


@pytest.fixture
def recorded() -> Path:
    if not (_RECORDED / "README.md").is_file():
        pytest.skip(f"no recorded files at {_RECORDED}: set PRECISION_BISECT_RECORDED to their folder")
    return _RECORDED
