"""A checkout whose submodules come and go: `lib` holds another one at `deep`, both cloned from beside it by relative
URLs."""

import subprocess
from pathlib import Path

from tests.conftest import TestRepository


class Submodules:
    """The checkout, what its submodules are cloned from, and its commits."""

    def __init__(self, folder: Path) -> None:
        self.deep, self.lib, self.checkout = (
            TestRepository(folder / name) for name in ("deep", "lib", "checkout")
        )
        self.deep.commit("deep", {"state": "fine\n"})
        self.lib.commit("lib", {"state": "fine\n"})
        self.lib.git("submodule", "--quiet", "add", "../deep", "deep")
        self.lib.commit("with deep", {})
        # Relative URLs are relative to where the checkout was cloned from.
        self.checkout.git("remote", "add", "origin", str(self.checkout.path))
        self.commits = [self.checkout.commit("no submodule", {"number": "0\n"})]

    def add(self, path: str) -> None:
        """A commit with `lib` as a submodule."""
        self.checkout.git("submodule", "--quiet", "add", "../lib", path)
        self.checkout.git("submodule", "--quiet", "update", "--init", "--recursive")
        self.commit(f"add {path}")

    def move_deep(self, path: str, state: str) -> None:
        """A commit that pins a newer commit of the submodule at `path`, which pins a newer one of its own."""
        self.deep.commit(state, {"state": f"{state}\n"})
        self.lib.git("-C", "deep", "pull", "--quiet", "--ff-only", "origin", "main")
        self.lib.commit(state, {})
        self.checkout.git(
            "-C", path, "pull", "--quiet", "--ff-only", "--no-recurse-submodules", "origin", "main"
        )
        self.checkout.git("-C", path, "submodule", "--quiet", "update", "--init", "--recursive")
        self.commit(f"move {path}")

    def commit(self, subject: str, files: dict[str, str | None] | None = None) -> None:
        """Any other commit."""
        self.commits.append(self.checkout.commit(subject, files or {"number": f"{len(self.commits)}\n"}))

    def as_cloned(self, commit: str, folder: Path) -> dict[str, str]:
        """The files that git itself puts into a fresh clone of a commit and of its submodules."""
        self.checkout.git("clone", "--quiet", "--no-checkout", str(self.checkout.path), str(folder))
        for words in (
            ("checkout", "--quiet", commit),
            ("submodule", "--quiet", "update", "--init", "--recursive"),
        ):
            subprocess.run(["git", "-C", folder, "-c", "protocol.file.allow=always", *words], check=True)
        return files_in(folder)


def files_in(folder: Path) -> dict[str, str]:
    """The text of every file, without git's own."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }
