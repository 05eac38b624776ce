"""simpler runs on Python 3.9, whose `zip` takes no `strict`: none of its calls hands it one."""

import ast
from pathlib import Path

PACKAGE = Path("python/simpler")


def holds() -> bool | None:
    """None where there is no package."""
    if not PACKAGE.is_dir():
        return None
    calls = [
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip"
    ]
    return not any(keyword.arg == "strict" for call in calls for keyword in call.keywords)
