"""Text of other people, made safe to show: one line, nothing in it invisible, nothing that a terminal obeys."""

import unicodedata

LONGEST_OF_OURS = 10_000
"""Characters of a sentence of the tool's own, which is never cut in its middle: what comes last may be the caveat."""


def one_line(text: str) -> str:
    """The text with blanks for all kinds of space, and escapes for what cannot be seen.

    Control characters would move a terminal's cursor, and direction marks would make a line read as another one.

    >>> one_line("fix\\ttiling\\x1b[31m \\u202eSSAP")
    'fix tiling\\\\x1b[31m \\\\u202eSSAP'
    """
    if text.isprintable():
        return text.strip()
    return "".join(_visible(character) for character in text).strip()


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters.

    >>> shortened("0123456789", 6)
    '01234…'
    """
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
