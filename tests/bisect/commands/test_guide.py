"""The guide's tables of options say what the commands take."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_tables_of_options_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "options.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
