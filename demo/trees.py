"""The source trees that the histories end in, read from the package's data."""

from pathlib import Path

from .history.edit import Tree

_TREES = Path(__file__).parent / "trees"
_LEFTOVERS = frozenset({"__pycache__", "build", "build_output"})


def load_tree(name: str) -> Tree:
    """All text files of one source tree. Hidden files and what runs leave behind are no part of it.

    Raises FileNotFoundError where the package lacks the tree, UnicodeDecodeError at a file that is not UTF-8.
    """
    root = _TREES / name
    if not root.is_dir():
        raise FileNotFoundError(f"expected the source tree {root}, found none: reinstall precision-bisect")
    files = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]
    return {file.as_posix(): (root / file).read_text("utf-8") for file in files if _is_source(file)}


def _is_source(file: Path) -> bool:
    if file.suffix == ".pyc" or _LEFTOVERS.intersection(file.parts):
        return False
    return not any(part.startswith(".") or part.endswith(".egg-info") for part in file.parts)
