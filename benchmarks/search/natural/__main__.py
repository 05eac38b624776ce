"""python -m benchmarks.search.natural [OUT] (from the root of the repository).

Searches each recorded range with every commit in turn as culprit that can be told, by the tool's own engine and by the
real git, and writes what both took.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.search.natural.compare import RANGES, Row, compare
from benchmarks.search.natural.recorded import RecordedRange

_OUT = Path(__file__).parents[1] / "results" / "natural.md"


def markdown(rows: Sequence[tuple[Row, str]]) -> str:
    """The page."""
    lines = [
        "# Real ranges, recorded",
        "",
        "Means over all culprits that can be told (they and their parents can be tested), the largest in brackets. All",
        "runs of the tool are counted, of the ends and to confirm too; git runs no end and confirms nothing. The tool",
        "folds commits that read the same, git does not. Asked: at most a third of git's",
        "untestable commits, and at most git's runs and 6.",
        "",
        "| range | commits | candidates | of them untestable | met by the tool | met by git | runs of the tool "
        "| runs of git | named | as asked |",
        "|" + " --- |" * 10,
        *(row.line() for row, _ in rows),
        "",
        *(f"- `{row.name}`: {about}" for row, about in rows),
    ]
    return "\n".join(lines) + "\n"


def publish(out: Path) -> list[Row]:
    """Search all recorded ranges, and write the table."""
    rows: list[tuple[Row, str]] = []
    for path in sorted(RANGES.glob("*.json")):
        recorded = RecordedRange.read(path)
        rows.append((compare(path.stem, recorded), recorded.about))
        print(rows[-1][0].line(), flush=True)
    out.write_text(markdown(rows), encoding="utf-8")
    return [row for row, _ in rows]


def main() -> None:
    """Search all recorded ranges, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=_OUT)
    publish(parser.parse_args().out)


if __name__ == "__main__":
    main()
