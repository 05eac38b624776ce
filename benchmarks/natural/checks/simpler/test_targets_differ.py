"""CMake configures simpler's C++ unit tests: no two of their targets have one name. Nothing is built."""

import subprocess
import tempfile

CLASH = "another target with the same name"


def holds() -> bool | None:
    """None where it stops for another reason."""
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        googletest = [f"-DGTEST_{name}={folder}" for name in ("LIB", "MAIN_LIB", "INCLUDE_DIRS")]
        done = subprocess.run(
            ["cmake", "-S", "tests/ut/cpp", "-B", folder, *googletest],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return True
    return False if CLASH in " ".join(done.stderr.split()) else None
