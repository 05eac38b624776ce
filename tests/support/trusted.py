"""Files that count without being typed, which a home trusts by then."""

from pathlib import Path

import pytest

from precision_bisect.runner.settings import trust_file
from precision_bisect.runner.workspace.home import HOME_VARIABLE


def write_trusted(file: Path, text: str, home: Path | None = None) -> None:
    """Write a stack or settings file and trust it, in the home that a test's programs have; by default in this
    process's."""
    file.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        if home is not None:
            patch.setenv(HOME_VARIABLE, str(home))
        trust_file(file)
