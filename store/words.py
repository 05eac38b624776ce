"""Counts and times as people say them, for everything that is printed."""


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "step"), plural(3, "step"), plural(2, "pass")
    ('1 step', '3 steps', '2 passes')
    """
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(42), duration(150), duration(7260)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
