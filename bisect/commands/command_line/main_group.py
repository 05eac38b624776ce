"""The group behind `bisect-precision`: it bisects where no subcommand is named."""

import difflib
import shlex
import shutil
from pathlib import Path

import click

from ....runner.stack.configured_command import ConfiguredCommand

PREDICATE = "precision_bisect.predicate"
"""Where the words behind `--` are kept, in the context's `meta`."""


TYPED = "precision_bisect.typed"
"""Where all words of the command are kept, in the context's `meta`."""


NOTHING_BEGUN = "interrupted before anything had begun: nothing was run or kept; ask again"
INTERRUPTED = 130
"""The exit code."""


class MainGroup(click.Group, ConfiguredCommand):
    """As in git, the words behind `--` are a predicate."""

    def invoke(self, ctx: click.Context) -> object:
        """Call the command. What a command does about Ctrl-C, it does once its modules are there."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(NOTHING_BEGUN, err=True)
            ctx.exit(INTERRUPTED)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words behind `--` off, unless they belong to a subcommand."""
        ctx.meta[TYPED] = tuple(args)
        if "--" in args:
            head = args[: args.index("--")]
            if not self._names_a_command(ctx, head):
                ctx.meta[PREDICATE] = tuple(args[len(head) + 1 :])
                args = head
        return super().parse_args(ctx, args)

    def _names_a_command(self, ctx: click.Context, words: list[str]) -> bool:
        """Whether a word that is no option's value is there: it is a subcommand, and what follows belongs to it."""
        parser = self.make_parser(ctx)
        try:
            _, rest, _ = parser.parse_args(list(words))
        except click.UsageError:
            return False  # which is said when they are parsed in earnest
        return bool(rest) and rest[0] in self.commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that is named; where there is none of that name, say what was meant."""
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            ctx.fail(_not_a_command(args, sorted(self.commands)))
        return super().resolve_command(ctx, args)


def _not_a_command(words: list[str], commands: list[str]) -> str:
    word = words[0]
    close = difflib.get_close_matches(word, commands, n=1)
    if close:
        return f"expected a subcommand, found {word!r}: did you mean {close[0]}?"
    if "/" in word or Path(word).exists() or shutil.which(word) is not None:
        hint = f"a command that judges commits stands behind --: -- {shlex.join(words)}"
        return f"expected a subcommand, found {word!r}; {hint}"
    return f"expected a subcommand ({', '.join(commands)}), found {word!r}"
