"""The sources of a build as values: what a fault changes."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_TASK = re.compile(
    r"CoreTaskArgs (?P<parameters>params_t\d+);\n"
    r"(?P<arguments>(?:\s+(?P=parameters)\.add_\w+\(.*\);\n)*)"
    r"\s+rt_submit_ai[cv]_task\((?P<id>\d+), (?P=parameters)\);  // (?P<kernel>\w+)\n"
)
_ARGUMENT = re.compile(r"\.add_(input|output|inout|scalar)\((.*)\);")
_VIEW = re.compile(r"_view(?:_\d+)?\Z")


class InapplicableError(Exception):
    """A kind of fault has no place here; another place is drawn."""


@dataclass(frozen=True)
class Submission:
    """One place of the orchestration that submits a task. `arguments` are pairs of usage and expression."""

    text: str
    kernel: str
    kernel_id: int
    arguments: tuple[tuple[str, str], ...]

    @property
    def written(self) -> frozenset[str]:
        """The tensors that its task is declared to write."""
        return frozenset(tensor(name) for usage, name in self.arguments if usage in ("output", "inout"))

    @property
    def read(self) -> frozenset[str]:
        """The tensors that its task is declared to read."""
        return frozenset(tensor(name) for usage, name in self.arguments if usage in ("input", "inout"))


def tensor(name: str) -> str:
    """The tensor behind the generated name of a view or of an argument of the orchestration.

    >>> tensor("ext_q"), tensor("probs_view_2"), tensor("peak")
    ('q', 'probs', 'peak')
    """
    return _VIEW.sub("", name.removeprefix("ext_"))


@dataclass(frozen=True)
class Sources:
    """The orchestration's text, and each kernel's by name."""

    orchestration: str
    kernels: Mapping[str, str]

    @classmethod
    def read(cls, build: Path) -> Sources:
        """Those of a build directory."""
        return cls(
            orchestration=_orchestration(build).read_text(),
            kernels={file.stem: file.read_text() for file in sorted((build / "kernels").rglob("*.cpp"))},
        )

    def write(self, good: Path, bad: Path) -> Path:
        """The new build directory `bad`: the good one with these sources."""
        shutil.copytree(good, bad)
        for file in [_orchestration(bad), *(bad / "kernels").rglob("*.cpp")]:
            text = self.kernels.get(file.stem) if file.parent.parent.name == "kernels" else self.orchestration
            if text is not None and text != file.read_text():
                file.write_text(text)
        return bad

    @property
    def submissions(self) -> tuple[Submission, ...]:
        """In the order of the text."""
        return tuple(
            Submission(
                text=found[0],
                kernel=found["kernel"],
                kernel_id=int(found["id"]),
                arguments=tuple((usage, name) for usage, name in _ARGUMENT.findall(found["arguments"])),
            )
            for found in _TASK.finditer(self.orchestration)
        )

    def with_kernel(self, name: str, text: str) -> Sources:
        """With another text of one kernel."""
        return replace(self, kernels={**self.kernels, name: text})

    def with_submission(self, submission: Submission, text: str) -> Sources:
        """With another text in place of a submission's."""
        return replace(self, orchestration=replaced(self.orchestration, submission.text, text))


def replaced(text: str, old: str, new: str) -> str:
    """`text` with the first `old` changed to `new`. Raises `InapplicableError` where it has none."""
    if old not in text or old == new:
        raise InapplicableError
    return text.replace(old, new, 1)


def substituted(
    pattern: str, new: str | Callable[[re.Match[str]], str], text: str, rng: random.Random
) -> str:
    """`text` with one match of `pattern` changed, drawn from all. Raises `InapplicableError` where there is none."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise InapplicableError
    match = rng.choice(matches)
    changed = new(match) if callable(new) else match.expand(new)
    return text[: match.start()] + changed + text[match.end() :]


def _orchestration(build: Path) -> Path:
    (file,) = (build / "orchestration").glob("*.cpp")
    return file
