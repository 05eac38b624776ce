"""What a submission names of the machine where it was typed: a worker must have it under the same path."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ..command_line.bisect_options import BisectOptions
from ..command_line.parsed_words import parsed_words


def lacking_path(folder: str, words: Sequence[str]) -> str | None:
    """What is not there, or cannot be read, of the folder of a submission and of the paths that its words name, in
    words; None where all is there."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"expected the folder where it was typed, {folder}, found none that can be read"
    try:
        options = parsed_words(words).options
    except click.UsageError:
        return None  # the run itself says what is wrong with them
    for option, path in _named(options):
        there = Path(folder) / path.expanduser()
        if not os.access(there, os.R_OK):
            return f"expected {option} {there}, found none that can be read"
    return None


def _named(options: BisectOptions) -> Iterator[tuple[str, Path]]:
    """Each path that is no part of a commit, with its option."""
    if options.stack is not None and options.stack.endswith(".toml"):
        yield "--stack", Path(options.stack)
    for text in options.repository:
        yield "--repository", Path(text.partition("=")[2])
    for text in options.overlay:
        path, at, _ = text.partition("@")
        if not at:
            yield "--overlay", Path(path)
    for path in options.adapt:
        yield "--adapt", path
    for name, path in (
        ("--replay", options.replay),
        ("--golden-data", options.golden_data),
        ("--runtime-dir", options.runtime_dir),
    ):
        if path is not None:
            yield name, path
