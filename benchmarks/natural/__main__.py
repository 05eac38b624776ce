"""python -m benchmarks.natural NAME CLONE [-- CHECK ...] (from the root of the repository).

Puts a regression that really happened to the product, by one command in a clone of its repository, and the same to
`git bisect run`. CHECK answers the question of a regression for the tree in the current folder: exit code 0 yes, 1 no,
125 where it cannot be told. It is needed where the regression has neither a stack file nor a check of its own. It is
also what git runs; of a regression with a stack file git is asked only where there is one. Without a name the corpus is
listed. Rows are kept, and the table is written
anew from all of them.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.natural.git import ask_git
from benchmarks.natural.product import ask_product
from benchmarks.natural.regression import CORPUS, read_corpus
from benchmarks.natural.table import RESULTS, Row, keep, markdown, read_rows


def main() -> int:
    """Exit code 0 where the product named the truth, 1 where it named something else, 3 where it left it open."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", help="of a regression")
    parser.add_argument(
        "clone", nargs="?", type=Path, help="a clone of its repository, which is left as it is"
    )
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="the folder of the corpus")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the rows and the table are kept")
    parser.add_argument(
        "--stack",
        type=lambda path: Path(path).resolve(),
        help="the stack file of a regression that names none",
    )
    parser.add_argument(
        "--home", type=Path, help="where the product keeps builds and runs; a new folder by default"
    )
    arguments, behind = sys.argv[1:], list[str]()
    if "--" in arguments:
        place = arguments.index("--")
        arguments, behind = arguments[:place], arguments[place + 1 :]
    asked = parser.parse_args(arguments)
    corpus = read_corpus(asked.corpus)
    if asked.name is None:
        for regression in corpus.values():
            print(f"{regression.name:<28}{regression.repository:<28}{regression.case}")
        return 0
    if asked.name not in corpus or asked.clone is None:
        parser.error(f"expected a name of the corpus and a clone, found {asked.name} and {asked.clone}")
    regression, clone = corpus[asked.name], asked.clone.resolve()
    check = regression.check_command(behind)
    home = asked.home or Path(tempfile.mkdtemp(prefix="natural-home-"))
    try:
        product = ask_product(regression, clone, check, stack=asked.stack, home=home)
    finally:
        if asked.home is None:
            shutil.rmtree(home)
    git = ask_git(regression, clone, check) if check else None
    asked.results.mkdir(parents=True, exist_ok=True)
    keep(Row(name=regression.name, product=product, git=git), asked.results / "rows.jsonl")
    rows = [row for row in read_rows(asked.results / "rows.jsonl") if row.name in corpus]
    (asked.results / "results.md").write_text(markdown(rows, corpus), encoding="utf-8")
    verdict = product.verdict(regression.culprit)
    print(f"{regression.name}: {verdict}, {product.runs} runs, {product.minutes:.1f} minutes")
    return {"named": 0, "WRONG": 1}.get(verdict, 3)


if __name__ == "__main__":
    sys.exit(main())
