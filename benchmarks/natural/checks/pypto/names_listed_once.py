"""pypto.language.op lists each name that it exports once."""

import ast
from pathlib import Path

MODULE = Path("python/pypto/language/op/__init__.py")


def holds() -> bool | None:
    """None where it lists none."""
    for statement in ast.parse(MODULE.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names = ast.literal_eval(statement.value)
            return len(names) == len(set(names))
    return None
