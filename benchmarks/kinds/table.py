"""The results as Markdown."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import get_args

from benchmarks.kinds.judge import GitJudgement, Judgement, Row

_HONEST = {"right", "right, caveat", "list with it"}


def render(rows: Sequence[Row], plain_line: str) -> str:
    decidable = [row for row in rows if row.case.expected != "undecidable"]
    undecidable = [row for row in rows if row.case.expected == "undecidable"]
    parts = ["# Kinds of failures", _goals(decidable), f"A report without a caveat begins: `{plain_line}`."]
    parts.append(_totals("Decidable", decidable))
    if undecidable:
        parts.append(_totals("Undecidable: the other failure looks like the fault", undecidable))
    for heading, key in _GROUPS:
        parts.append(_groups(heading, rows, key))
    parts.append(_cases(rows))
    return "\n\n".join(parts) + "\n"


_GROUPS: Sequence[tuple[str, Callable[[Row], str]]] = (
    ("By expected answer", lambda row: row.case.expected),
    ("By shape", lambda row: row.case.shape),
    ("By project", lambda row: row.case.project),
)


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if whole else "0"


def _goals(rows: Sequence[Row]) -> str:
    """The three numbers that were asked for."""
    wrong = sum(row.product.judgement == "wrong" for row in rows)
    honest = sum(row.product.judgement in _HONEST for row in rows)
    runs, twin_runs = sum(row.product.runs for row in rows), sum(row.twin.runs for row in rows)
    git_wrong = sum(row.git == "wrong" for row in rows)
    ratio = f"{runs / twin_runs:.2f}" if twin_runs else "unknown"
    return "\n".join(
        [
            f"Of {len(rows)} decidable cases:",
            "",
            f"- wrong with confidence: {_share(wrong, len(rows))}; asked: at most 1 %",
            f"- right, or unknown with a list that has the culprit: {_share(honest, len(rows))}; asked: at least 95 %",
            f"- runs beside those of the same range without the other failure: {ratio}; asked: at most 1.3",
            f"- `git bisect run` wrong: {_share(git_wrong, len(rows))}",
        ]
    )


def _totals(heading: str, rows: Sequence[Row]) -> str:
    judged, twins, by_git = (
        Counter(row.product.judgement for row in rows),
        Counter(row.twin.judgement for row in rows),
        Counter(row.git for row in rows),
    )
    lines = [f"## {heading}: {len(rows)}", ""]
    lines += ["| answer | product | without the other failure | git |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys((*get_args(Judgement), *get_args(GitJudgement))):
        shares = [_share(counts[name], len(rows)) for counts in (judged, twins, by_git)]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    lengths = [
        len({*row.product.listed, *row.product.named}) / len(row.case.commits)
        for row in rows
        if row.product.judgement.startswith("list")
    ]
    if lengths:
        lines += ["", f"A list has {median(lengths):.0%} of the range's commits, in the median."]
    return "\n".join(lines)


def _groups(heading: str, rows: Sequence[Row], key: Callable[[Row], str]) -> str:
    lines = [f"## {heading}", ""]
    lines += [
        "| | cases | right | list with it | wrong | wrong, caveat | other | runs | twin's runs | git wrong | stopped |",
        "|" + " --- |" * 11,
    ]
    for name in sorted({key(row) for row in rows}):
        group = [row for row in rows if key(row) == name]
        counts = Counter(row.product.judgement for row in group)
        right = counts["right"] + counts["right, caveat"]
        other = len(group) - right - counts["list with it"] - counts["wrong"] - counts["wrong, caveat"]
        by_git = Counter(row.git for row in group)
        cells: list[object] = [name, len(group), right, counts["list with it"], counts["wrong"]]
        cells += [counts["wrong, caveat"], other]
        cells += [sum(row.product.runs for row in group), sum(row.twin.runs for row in group)]
        cells += [by_git["wrong"], by_git["stopped"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _cases(rows: Sequence[Row]) -> str:
    lines = ["## Cases", "", "Numbers of commits count from the good end.", ""]
    lines += [
        "| case | commits | expected | culprit | answer | named | exit | runs | twin | runs | git | runs |",
        "|" + " --- |" * 12,
    ]
    for row in rows:
        case, product, twin = row.case, row.product, row.twin
        named = ", ".join(map(str, product.named)) or f"{len(product.listed)} listed"
        cells = [
            case.name,
            len(case.commits),
            case.expected,
            case.culprit,
            product.judgement,
            named,
            product.code,
        ]
        cells += [product.runs, twin.judgement, twin.runs, row.git, row.git_runs]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
