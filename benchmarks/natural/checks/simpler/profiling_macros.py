"""Each macro that the smoke test of simpler's profiling flags sets is one that the sources ask for."""

import re
from pathlib import Path

WORKFLOW = Path(".github/workflows/ci.yml")
CONDITION = re.compile(r"^\s*#\s*(?:el)?if\w*\s.*$", re.MULTILINE)


def holds() -> bool | None:
    """None where there is no such smoke test."""
    table = re.search(r"COMBO_DEFS=\((.*?)\n\s*\)", WORKFLOW.read_text(encoding="utf-8"), re.DOTALL)
    if table is None:
        return None
    sources = [path for path in Path("src").rglob("*") if path.suffix in (".h", ".cpp")]
    conditions = [line for path in sources for line in CONDITION.findall(path.read_text(encoding="utf-8"))]
    return set(re.findall(r"-D(\w+)=", table[1])) <= set(re.findall(r"\w+", " ".join(conditions)))
