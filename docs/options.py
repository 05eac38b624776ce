"""Write the tables of options in the guide from what the commands declare to click.

python docs/options.py            writes them
python docs/options.py --check    exits with 1 where they are not current
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.bisect.cli import nightly
from precision_bisect.reduce.cli import main as reduce
from precision_bisect.runner.compare.cli import main as diff_tensors
from precision_bisect.store.option_groups import GroupedCommand, OptionGroup, group_of

GUIDE = Path(__file__).with_name("guide.md")
COMMANDS: dict[str, click.Command] = {
    "bisect-precision": bisect_precision,
    "bisect-precision nightly": nightly,
    "diff-tensors": diff_tensors,
    "reduce": reduce,
}
_PLACE = re.compile(r"(<!-- options of ([a-z -]+) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def table(command: click.Command) -> str:
    """The options of a command as a table of Markdown, without `--help`."""
    rows = ["| option | meaning |", "| --- | --- |"]
    with click.Context(command) as context:
        for title, options in groups(command):
            rows.extend([f"| **{title}** | |"] if title else [])
            for option in options:
                record = option.get_help_record(context)
                if record is not None:
                    spelling, meaning = (" ".join(text.split()).replace("|", r"\|") for text in record)
                    rows.append(f"| `{spelling}` | {meaning} |")
    return "".join(f"{row}\n" for row in rows)


def groups(command: click.Command) -> Iterator[tuple[str, list[click.Option]]]:
    """The options of a command as its `--help` groups them, each group with its title."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if not isinstance(command, GroupedCommand):
        yield "", options
        return
    for group in OptionGroup:
        members = [option for option in options if group_of(option) is group]
        if members:
            yield group, members


def with_tables(text: str) -> str:
    """The text of the guide with each table written anew. Raises `KeyError` where a marker names no command."""
    return _PLACE.sub(lambda place: f"{place[1]}{table(COMMANDS[place[2]])}{place[3]}", text)


def main() -> int:
    """Write the tables, or check them; the exit code."""
    text = GUIDE.read_text(encoding="utf-8")
    current = with_tables(text)
    if sys.argv[1:] != ["--check"]:
        GUIDE.write_text(current, encoding="utf-8")
    elif text != current:
        print("docs/guide.md: the tables of options are not current; run: python docs/options.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
