"""pypto's example of batched paged attention hands `pl.move` only arguments that it takes."""

import ast
from pathlib import Path

PROGRAM = "def BuildBatchPagedAttentionProgram("


def holds() -> bool | None:
    """None where there is no such example, or no such operation."""
    texts = [path.read_text(encoding="utf-8") for path in Path("examples").rglob("*.py")]
    calls = [
        node
        for text in texts
        if PROGRAM in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pl.move"
    ]
    taken = [
        {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
        for path in Path("python/pypto/language/op").glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "move"
    ]
    if not calls or not taken:
        return None
    return {keyword.arg for call in calls for keyword in call.keywords} <= set[str | None]().union(*taken)
