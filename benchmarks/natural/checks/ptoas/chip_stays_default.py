"""PTOAS's script of validation compiles for the default chip where all that is installed is a simulator of 910B.

The part of it that looks for simulators is run alone, on folders made for it.
"""

import re
import subprocess
import tempfile
from pathlib import Path

SCRIPT = Path("test/npu_validation/scripts/run_remote_npu_validation.sh")
LOOKING = re.compile(
    r'^SIM_SOC_VERSION="\$\{SOC_VERSION\}"$.*?^log "SIM_SOC_VERSION=', re.DOTALL | re.MULTILINE
)
AROUND = """
set -euo pipefail
log() {{ :; }}
SOC_VERSION=Ascend910
{}"
printf %s "$SOC_VERSION"
"""


def holds() -> bool | None:
    """None where the script is not there, or looks for no simulator."""
    looking = LOOKING.search(SCRIPT.read_text(encoding="utf-8")) if SCRIPT.exists() else None
    if looking is None:
        return None
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        Path(folder, "aarch64-linux/simulator/Ascend910B1/lib").mkdir(parents=True)
        done = subprocess.run(
            ["bash", "-c", AROUND.format(looking[0])],
            env={"ASCEND_HOME_PATH": folder, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    print(f"compiled for {done.stdout}")
    return done.stdout == "Ascend910"
