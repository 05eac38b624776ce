"""The options of a bisection from its words, outside of the program's own command line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import click
from click.core import ParameterSource
from dataclass_click import dataclass_click  # pyright: ignore[reportUnknownVariableType]

from ....runner.stack.configured_command import ConfiguredCommand
from .bisect_options import BisectOptions


@dataclass(frozen=True, kw_only=True)
class ParsedWords:
    """The options, and the names of those fields that were typed, not taken from a default."""

    options: BisectOptions
    typed: frozenset[str]


def parsed_words(words: Sequence[str], *, with_defaults: bool = False) -> ParsedWords:
    """The options that the words of `bisect-precision` mean; `with_defaults`: of the checkout around this folder.

    Raises `click.UsageError` where they mean none.
    """
    head = list(words)
    predicate: tuple[str, ...] | None = None
    if "--" in head:
        place = head.index("--")
        head, predicate = head[:place], tuple(head[place + 1 :])
    context = (_WITH_DEFAULTS if with_defaults else _BARE).make_context("bisect-precision", head)
    options = replace(BisectOptions(**context.params), predicate=predicate, typed=tuple(words))
    typed = {name for name in context.params if _is_typed(context, name)}
    return ParsedWords(options=options, typed=frozenset(typed))


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


@click.command(cls=ConfiguredCommand, add_help_option=False)
@dataclass_click(BisectOptions)
def _WITH_DEFAULTS(options: BisectOptions) -> None:  # noqa: N802
    """Only its parameters count."""


@click.command(add_help_option=False)
@dataclass_click(BisectOptions)
def _BARE(options: BisectOptions) -> None:  # noqa: N802
    """Only its parameters count."""
