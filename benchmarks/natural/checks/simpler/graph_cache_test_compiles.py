"""The unit test of simpler's graph cache is valid C++. Nothing is built.

The headers of GoogleTest are those of the system (`apt-get install libgtest-dev`), or of CPLUS_INCLUDE_PATH.
"""

import json
import shlex
import subprocess
import tempfile
from pathlib import Path

TEST = "test_hbg_graph_cache.cpp"


def holds() -> bool | None:
    """None where CMake does not know the test, or a header is missing."""
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        googletest = [f"-DGTEST_{name}={folder}" for name in ("LIB", "MAIN_LIB", "INCLUDE_DIRS")]
        subprocess.run(
            [
                *("cmake", "-S", "tests/ut/cpp", "-B", folder, *googletest),
                "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            ],
            capture_output=True,
            check=True,
        )
        commands = json.loads((Path(folder) / "compile_commands.json").read_text(encoding="utf-8"))
        command = next((each["command"] for each in commands if each["file"].endswith(TEST)), None)
        if command is None:
            return None
        done = subprocess.run(
            [*shlex.split(command), "-fsyntax-only"], cwd=folder, capture_output=True, text=True, check=False
        )
    print(done.stderr[:2000])
    return None if "fatal error:" in done.stderr else done.returncode == 0
