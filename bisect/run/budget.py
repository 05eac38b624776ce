"""When no probe may start any more."""


class BudgetSpentError(Exception):
    """No probe may start any more; the text says why, and how it goes on."""
