"""Write the tables of the reference from the code: options as click has them, and verdicts with their traits.

python docs/options.py            writes them
python docs/options.py --check    exits with 1 where they are not current
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.cli_options import GroupedCommand, OptionGroup, option_group
from precision_bisect.runner.compare.diff_cli import main as diff_tensors
from precision_bisect.store.vocabulary import Verdict, VerdictTraits

REFERENCE = Path(__file__).with_name("reference")
OPTIONS, VERDICTS = REFERENCE / "options.md", REFERENCE / "verdicts.md"
COMMANDS: dict[str, click.Command] = {
    "bisect-precision": bisect_precision,
    **{f"bisect-precision {name}": command for name, command in bisect_precision.commands.items()},
    "diff-tensors": diff_tensors,
    "reduce": reduce,
}
_OPTIONS = re.compile(r"(<!-- options of ([a-z -]+) -->\n).*?(<!-- end of options -->)", re.DOTALL)
_TRAITS = re.compile(r"(<!-- traits of verdicts -->\n).*?(<!-- end of traits -->)", re.DOTALL)


def option_table(command: click.Command) -> str:
    """The options of a command as a table of Markdown, without those that all commands have."""
    rows: list[str] = []
    with click.Context(command) as context:
        for title, options in groups(command):
            shown = [option for option in options if option.name != "version"]
            rows.extend([f"| **{title}** | |"] if title and shown else [])
            for option in shown:
                record = option.get_help_record(context)
                if record is not None:
                    spelling, meaning = (" ".join(text.replace("|", r"\|").split()) for text in record)
                    words = re.sub(r"[^\s,]+(?=[\s,]|$)", r"`\g<0>`", spelling)
                    rows.append(f"| {words} | {meaning} |")
    if not rows:
        return "It has no options of its own.\n"
    return "".join(f"{row}\n" for row in ["| option | meaning |", "| --- | --- |", *rows])


def groups(command: click.Command) -> Iterator[tuple[str, list[click.Option]]]:
    """The options of a command as its `--help` groups them, each group with its title."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if not isinstance(command, GroupedCommand):
        yield "", options
        return
    for group in OptionGroup:
        members = [option for option in options if option_group(option) is group]
        if members:
            yield group, members


def trait_tables() -> str:
    """The traits of each verdict, and what each trait means."""
    rows = ["| verdict | traits |", "| --- | --- |"]
    for verdict in Verdict:
        names = [f"`{name}`" for name, holds in asdict(verdict.traits).items() if holds]
        rows.append(f"| `{verdict}` | {', '.join(names) or 'none'} |")
    rows += ["", "| trait | meaning |", "| --- | --- |"]
    rows += [f"| `{name}` | {meaning} |" for name, meaning in trait_meanings()]
    return "".join(f"{row}\n" for row in rows)


def trait_meanings() -> Iterator[tuple[str, str]]:
    """Each trait with the text below it in the code."""
    (definition,) = ast.parse(inspect.getsource(VerdictTraits)).body
    assert isinstance(definition, ast.ClassDef)
    name = ""
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=field)):
                name = field
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                yield name, " ".join(text.split())
            case _:
                pass


def current(page: Path) -> str:
    """The text of a page with each table written anew. Raises `KeyError` where a marker names no command."""
    text = _OPTIONS.sub(
        lambda place: f"{place[1]}{option_table(COMMANDS[place[2]])}{place[3]}", page.read_text("utf-8")
    )
    return _TRAITS.sub(lambda place: f"{place[1]}{trait_tables()}{place[2]}", text)


def main() -> int:
    """Write the tables, or check them; the exit code."""
    code = 0
    for page in (OPTIONS, VERDICTS):
        text = current(page)
        if sys.argv[1:] != ["--check"]:
            page.write_text(text, encoding="utf-8")
        elif page.read_text("utf-8") != text:
            print(f"docs/reference/{page.name}: the tables are not current; run: python docs/options.py")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
