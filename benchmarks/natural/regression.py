"""The corpus: regressions that really happened, as facts. Nothing of a repository is here, nor how to build it."""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

CORPUS = Path(__file__).parent / "regressions"
CHECKS = Path(__file__).parent / "checks"


@dataclass(frozen=True, kw_only=True)
class StackCase:
    """A case that a stack file knows how to build and run. case, bad_when: as `--case` and `--bad-when` take them.

    stack: the name of a stack file that comes with the product, or (`*.toml`) a file of `checks/`; None where the user
    brings one. repositories: where those of a stack file of ours lie in the clone, by name.
    """

    case: str
    platform: str
    bad_when: str
    stack: str | None = None
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])

    def stack_file(self) -> str | None:
        """What `--stack` takes, where the user brings none."""
        ours = self.stack is not None and self.stack.endswith(".toml")
        return str(CHECKS / str(self.stack)) if ours else self.stack


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One regression, or where `seeks` is "fix" the mending of one.

    repository: owner and name on GitHub. case: what is asked at each commit; where there is no `stack_case`, a check
    answers it by its exit code: the file of `checks/` that `check` names, or one that the user brings. good, bad: the
    ends (full hashes); of a fix, `bad` is the older one. culprit: the truth. known: how the truth is known without the
    product.
    """

    name: str
    repository: str
    case: str
    seeks: Literal["regression", "fix"]
    good: str
    bad: str
    culprit: str
    known: str
    check: str | None = None
    stack_case: StackCase | None = None

    @classmethod
    def read(cls, fields: dict[str, Any]) -> "Regression":
        """One table of a corpus file. Raises `TypeError` for a missing or unknown field."""
        stack_case = fields.pop("stack_case", None)
        return cls(**fields, stack_case=None if stack_case is None else StackCase(**stack_case))

    def check_command(self, brought: Sequence[str]) -> list[str]:
        """What is run in the tree of a commit: the check that the user brings, else ours, where there is one.

        Ours leaves no bytecode in that tree.
        """
        if brought or self.check is None:
            return [*brought]
        return [sys.executable, "-B", str(CHECKS), self.check]


def read_corpus(folder: Path = CORPUS) -> dict[str, Regression]:
    """All regressions by name. Raises `ValueError` where two have one name."""
    found: dict[str, Regression] = {}
    for path in sorted(folder.glob("*.toml")):
        for fields in tomllib.loads(path.read_text(encoding="utf-8"))["regressions"]:
            regression = Regression.read(fields)
            if regression.name in found:
                raise ValueError(f"{path}: expected names that differ, found {regression.name} twice")
            found[regression.name] = regression
    return found
