"""The corpus: regressions that really happened, as facts. Nothing of a repository is here, nor how to build it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

CORPUS = Path(__file__).parent / "regressions"


@dataclass(frozen=True, kw_only=True)
class StackCase:
    """A case that a stack file knows how to build and run. case, bad_when: as `--case` and `--bad-when` take them.
    stack: the name of a stack file that comes with the product; None where the user brings one."""

    case: str
    platform: str
    bad_when: str
    stack: str | None = None


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One regression, or where `seeks` is "fix" the mending of one.

    repository: owner and name on GitHub. case: what is asked at each commit; where there is no `stack_case`, a check
    that the user brings answers it by its exit code. good, bad: the ends (full hashes); of a fix, `bad` is the older
    one. culprit: the truth. known: how the truth is known without the product.
    """

    name: str
    repository: str
    case: str
    seeks: Literal["regression", "fix"]
    good: str
    bad: str
    culprit: str
    known: str
    stack_case: StackCase | None = None

    @classmethod
    def read(cls, fields: dict[str, Any]) -> "Regression":
        """One table of a corpus file. Raises `TypeError` for a missing or unknown field."""
        stack_case = fields.pop("stack_case", None)
        return cls(**fields, stack_case=None if stack_case is None else StackCase(**stack_case))


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
