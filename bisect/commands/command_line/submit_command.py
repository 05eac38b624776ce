"""The command that takes another command's words: what it does not know itself is left as it was typed."""

from typing import Any

import click
from typing_extensions import override

from ....runner.stack.configured_command import ConfiguredCommand


class SubmitCommand(ConfiguredCommand):
    """Its own options are taken out of the words; the others, and all behind `--`, become its argument `words`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ignore_unknown_options = True

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        behind = tuple(args[place:])
        rest = super().parse_args(ctx, args[:place])
        if not ctx.resilient_parsing:
            ctx.params["words"] = (*ctx.params["words"], *behind)
        return rest
