"""A real range as it was recorded: its commits, which of them could be tested, and what the errors of others blame."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """A file that errors blame. of_commit: the version that each commit of the range and, last, the good end holds, by
    its place in `objects`, the blobs (empty: none). fails: which versions have what the error points at; None where it
    points at nothing that could tell versions apart."""

    path: str
    objects: tuple[str, ...]
    fails: tuple[bool, ...] | None
    of_commit: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RecordedCommit:
    """One commit. content: of all that the check reads. errors: the first errors of the check at it; none where it can
    be tested. blamed: the place in `RecordedRange.files` of the file that each of them blames, if any."""

    sha: str
    parents: tuple[str, ...]
    time: int
    content: str
    errors: tuple[str, ...]
    blamed: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class RecordedRange:
    """The commits between a good end and the last of them, parents first; both ends can be tested."""

    about: str
    good: str
    good_content: str
    files: tuple[RecordedFile, ...]
    commits: tuple[RecordedCommit, ...]

    @classmethod
    def read(cls, path: Path) -> "RecordedRange":
        """The range in a file."""
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            about=found["about"],
            good=found["good"],
            good_content=found["good_content"],
            files=tuple(
                RecordedFile(
                    path=file["path"],
                    objects=tuple(file["objects"]),
                    fails=None if file["fails"] is None else tuple(map(bool, file["fails"])),
                    of_commit=tuple(file["of_commit"]),
                )
                for file in found["files"]
            ),
            commits=tuple(
                RecordedCommit(
                    sha=sha,
                    parents=tuple(parents),
                    time=time,
                    content=content,
                    errors=tuple(found["outcomes"][outcome]),
                    blamed=tuple(blamed),
                )
                for sha, parents, time, content, outcome, blamed in found["commits"]
            ),
        )

    def to_json(self) -> str:
        """The same as a file, one line a commit or a file; outcomes are named by their places in a list."""
        outcomes = [*dict.fromkeys([(), *(commit.errors for commit in self.commits)])]
        files = [
            {
                "path": file.path,
                "objects": file.objects,
                "fails": None if file.fails is None else [*map(int, file.fails)],
                "of_commit": file.of_commit,
            }
            for file in self.files
        ]
        commits = [
            [each.sha, each.parents, each.time, each.content, outcomes.index(each.errors), each.blamed]
            for each in self.commits
        ]
        head = {"about": self.about, "good": self.good, "good_content": self.good_content}
        rows = {"outcomes": outcomes, "files": files, "commits": commits}
        lists = [f' "{name}": [\n{_lines(row)}\n ]' for name, row in rows.items()]
        return json.dumps(head, indent=1)[:-2] + ",\n" + ",\n".join(lists) + "\n}\n"


def _lines(rows: Sequence[object]) -> str:
    return ",\n".join("  " + json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows)
