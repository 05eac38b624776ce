"""The checkout that a command is typed in."""

from pathlib import Path


def checkout_root(folder: Path) -> Path:
    """The root of the git checkout around a folder, a submodule's own; the folder itself where there is none."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder
