"""A command whose options need not be typed where the checkout says them."""

from collections.abc import Sequence
from pathlib import Path

import click
from typing_extensions import override

from ...store.option_groups import GroupedCommand
from ..errors import UsageError

_ASKS_ONLY = frozenset({"-h", "--help", "--version"})


class ConfiguredCommand(GroupedCommand):
    """A command whose options default to what the checkout around the current folder says."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not _ASKS_ONLY & set(args) and not ctx.resilient_parsing:
            from .defaults import read_defaults  # with what validates them, which `--help` does without

            try:
                defaults, folder = read_defaults(Path.cwd())
            except UsageError as error:
                raise click.UsageError(str(error), ctx) from error
            except FileNotFoundError as error:
                raise click.UsageError(
                    "expected a current folder, found it removed: change to another", ctx
                ) from error
            if _typed("--bisection", args) is not None:
                defaults = defaults.beside_bisection()
            ctx.default_map = defaults.for_stack(_typed("--stack", args)).by_option(folder)
        return super().parse_args(ctx, args)


def _typed(option: str, words: Sequence[str]) -> str | None:
    """The value that an option was typed with."""
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
