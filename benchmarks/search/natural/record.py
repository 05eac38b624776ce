"""python -m benchmarks.search.natural.record REPOSITORY GOOD BAD OUT --path include ... -- CHECK ...

Records a real range exhaustively: what becomes of a check at each of its commits. CHECK runs in a folder that holds
the paths as they are at a commit; if it ends with exit code 0 the commit can be tested, else its first errors say why
it cannot. Commits that hold the same objects at these paths share one run; `--kept FOLDER` keeps outcomes for the next
range. What is written are facts alone: hashes, parents, dates, outcomes, and which blobs of the named files each commit
holds.
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.search.natural.recorded import RecordedCommit, RecordedFile, RecordedRange
from precision_bisect.bisect.history.loader import blamed_file
from precision_bisect.bisect.history.range import LoadedRange, Range, collapse
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph
from precision_bisect.bisect.search.testability import BlamedFile
from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.verdict.rules import CompilerError, compiler_error
from precision_bisect.store.vocabulary import Commit

_MAX_ERRORS, _MAX_LINE_LENGTH = 4, 240
"""As many lines as a verdict keeps of one rule."""
_HEX = 12
_MAX_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class _Recorder:
    """A repository, the paths of it that a check reads, the check, and the outcomes so far by content."""

    repository: Path
    paths: tuple[str, ...]
    check: tuple[str, ...]
    kept: Path
    runs: list[str] = field(default_factory=list[str])

    def git(self, *arguments: str, text: str | None = None) -> str:
        """The output of git. Raises `CalledProcessError`."""
        command = ["git", "-C", str(self.repository), *arguments]
        return subprocess.run(command, check=True, input=text, capture_output=True, text=True).stdout

    def contents(self, commits: Sequence[str]) -> list[str]:
        """A key of the objects that each commit has at the paths."""
        asked = "".join(f"{commit}:{path}\n" for commit in commits for path in self.paths)
        answers = self.git("cat-file", "--batch-check=%(objectname)", text=asked).splitlines()
        found = ["" if answer.endswith(" missing") else answer for answer in answers]
        each = len(self.paths)
        return [_digest(found[place * each : (place + 1) * each]) for place in range(len(commits))]

    def outcome(self, commit: str, content: str) -> tuple[str, ...]:
        """The first errors of the check at a commit; none where it can be tested."""
        kept = self.kept / f"{_digest([content, *self.check])}.json"
        if not kept.exists():
            kept.write_text(json.dumps(self._run(commit)))
            self.runs.append(commit)
        return tuple(json.loads(kept.read_text()))

    def _run(self, commit: str) -> list[str]:
        with TemporaryDirectory(prefix="natural-") as folder:
            there = [path for path in self.paths if self.git("ls-tree", commit, "--", path)]
            archive = Path(folder) / "commit.tar"
            self.git("archive", f"--output={archive}", commit, "--", *there)
            tree = Path(folder) / "tree"
            tree.mkdir()
            shutil.unpack_archive(archive, tree, filter="data")
            try:
                ran = subprocess.run(
                    self.check,
                    cwd=tree,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=_MAX_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return [f"no end within {_MAX_SECONDS} seconds"]
            if ran.returncode == 0:
                return []
            lines = ran.stdout.decode(errors="replace").replace(f"{tree}/", "").splitlines()
            errors = [line[:_MAX_LINE_LENGTH] for line in lines if compiler_error(line)]
            return errors[:_MAX_ERRORS] or [f"exit code {ran.returncode}", *lines[-1:]]

    def record(self, *, good: str, bad: str, about: str) -> RecordedRange:
        """A range, with the outcome of each of its commits."""
        clone = GitRepository(self.repository)
        good, bad = (clone.resolve(each, option="range") for each in (good, bad))
        commits = clone.commits(good=good, bad=bad)
        *contents, good_content = self.contents([*(commit.sha for commit in commits), good])
        if self.outcome(good, good_content) or self.outcome(bad, contents[-1]):
            raise SystemExit(f"{good[:_HEX]}..{bad[:_HEX]}: expected two ends that can be tested")
        errors = [
            self.outcome(commit.sha, content) for commit, content in zip(commits, contents, strict=True)
        ]
        blame = _Blame(clone, commits, good)
        blamed = [blame.files(*each) for each in zip(commits, contents, errors, strict=True)]
        return RecordedRange(
            about=about,
            good=good[:_HEX],
            good_content=good_content,
            files=tuple(blame.recorded(file) for file in blame.known),
            commits=tuple(
                RecordedCommit(
                    sha=commit.sha[:_HEX],
                    parents=tuple(parent[:_HEX] for parent in commit.parents),
                    time=int(commit.date.timestamp()),
                    content=content,
                    errors=lines,
                    blamed=files,
                )
                for commit, content, lines, files in zip(commits, contents, errors, blamed, strict=True)
            ),
        )


class _Blame:
    """The files that errors blame, as the product reads them from git."""

    def __init__(self, clone: GitRepository, commits: Sequence[Commit], good: str) -> None:
        collapsed = collapse(commits, lambda sha: sha)
        assert collapsed is not None
        self._clone = clone
        self._shas = [*(commit.sha for commit in commits), good]
        self._loaded = LoadedRange(
            range=Range(repository="recorded", old=good, new=commits[-1].sha, held={}),
            commits=tuple(commits),
            contents={commit.sha: commit.sha for commit in commits},
            old_content=good,
            new_content=commits[-1].sha,
            commit_range=collapsed,
            graph=CommitGraph(collapsed.parents),
            windows=NO_WINDOWS,
        )
        self._of_content: dict[str, tuple[int | None, ...]] = {}
        self.known: list[BlamedFile] = []

    def files(self, commit: Commit, content: str, lines: Sequence[str]) -> tuple[int | None, ...]:
        """The place in `known` of the file that each of some lines of errors at a commit blames, if any."""
        if content not in self._of_content:
            errors = map(compiler_error, lines)
            self._of_content[content] = tuple(
                self._place(commit, error) if error else None for error in errors
            )
        return self._of_content[content]

    def _place(self, commit: Commit, error: CompilerError) -> int | None:
        candidates = self._shas[:-1]
        file = blamed_file(self._loaded, self._clone, candidates=candidates, commit=commit.sha, error=error)
        if file is None:
            return None
        for place, known in enumerate(self.known):
            if known.same_cause(file):
                return place
        self.known.append(file)
        return len(self.known) - 1

    def recorded(self, file: BlamedFile) -> RecordedFile:
        """A file with the blobs that its versions are."""
        _, first, of_commit = np.unique(file.versions, return_index=True, return_inverse=True)
        trees = [[*self._clone.tree(self._shas[int(place)], (file.path,))] for place in first]
        return RecordedFile(
            path=file.path,
            objects=tuple(tree[0].object_id[:_HEX] if tree else "" for tree in trees),
            fails=None if file.fails is None else tuple(file.fails[first].tolist()),
            of_commit=tuple(of_commit.tolist()),
        )


def _digest(parts: Iterable[str]) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_HEX]


def main() -> None:
    """Records one range."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path)
    parser.add_argument("good")
    parser.add_argument("bad")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--path", action="append", required=True, help="A file or folder that the check reads."
    )
    parser.add_argument("--kept", type=Path, required=True, help="Where outcomes are kept by content.")
    parser.add_argument(
        "--about", required=True, help="A sentence: which repository, and what is checked with what."
    )
    parser.add_argument("check", nargs="+")
    asked = parser.parse_args()
    asked.kept.mkdir(parents=True, exist_ok=True)
    recorder = _Recorder(
        repository=asked.repository, paths=tuple(asked.path), check=tuple(asked.check), kept=asked.kept
    )
    recorded = recorder.record(good=asked.good, bad=asked.bad, about=asked.about)
    asked.out.write_text(recorded.to_json())
    untestable = sum(bool(commit.errors) for commit in recorded.commits)
    print(
        f"{len(recorded.commits)} commits, {untestable} cannot be tested, {len(recorder.runs)} runs of the check"
    )


if __name__ == "__main__":
    main()
