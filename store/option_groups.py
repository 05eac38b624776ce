"""The groups in which `--help` lists the options of a command."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import click
import dataclass_click
from click.shell_completion import CompletionItem
from typing_extensions import override


class OptionGroup(StrEnum):
    """What an option is about, in the order of `--help`."""

    QUESTION = "Question"
    STACK = "Stack"
    SEARCH = "Search"
    RESOURCES = "Resources"
    OUTPUT = "Output"
    OTHER = "Other options"


class GroupedOption(click.Option):
    """An option that `--help` lists under its group's name."""

    def __init__(self, *args: Any, group: OptionGroup, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose `--help` lists its options by groups."""

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        for group in OptionGroup:
            members = (option.get_help_record(ctx) for option in options if group_of(option) is group)
            records = [record for record in members if record is not None]
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


@dataclass(frozen=True)
class Completion:
    """What a shell completes a value with, as click's `shell_complete`: those of the names that begin with what is
    typed, and files where there are none and `or_files`. Whatever goes wrong, the shell's line stays as it is."""

    names: Callable[[click.Context], Iterable[str]]
    or_files: bool = False

    def __call__(self, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names, in their order."""
        try:
            found = [CompletionItem(name) for name in self.names(ctx) if name.startswith(incomplete)]
        except Exception:
            found = []
        return found if found or not self.or_files else [CompletionItem(incomplete, type="file")]


def group_of(option: click.Option) -> OptionGroup:
    """The group of an option; one that was declared without, such as `--help`, is among the others."""
    return option.group if isinstance(option, GroupedOption) else OptionGroup.OTHER


def option(*names: str, group: OptionGroup, **settings: Any) -> Any:
    """An option of a dataclass of options; `settings` are those of `click.option`."""
    return dataclass_click.option(*names, cls=GroupedOption, group=group, **settings)
