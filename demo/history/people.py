"""Who commits to the demo stack, and when: fixed names and fixed dates, so that commit ids repeat."""

import random
from dataclasses import dataclass

START = 1_768_208_400  # 2026-01-12 09:00 UTC, first commit of the compiler
SPAN = 200 * 24 * 3600  # seconds between the compiler's first commit and its last
RUNTIME_LEAD = 30 * 24 * 3600  # seconds by which the runtime's repository is older


@dataclass(frozen=True)
class Author:
    """Somebody who commits, and the time zone that the commits show."""

    name: str
    email: str
    zone: str  # offset from UTC as git writes it

    @property
    def login(self) -> str:
        """The address before the @."""
        return self.email.partition("@")[0]


AUTHORS = (
    Author("Mei Lin", "mei.lin@example.com", "+0800"),
    Author("Jonas Weber", "jonas.weber@example.com", "+0100"),
    Author("Priya Nair", "priya.nair@example.com", "+0530"),
    Author("Tomás Ferreira", "tomas.ferreira@example.com", "+0000"),
    Author("Hao Zhang", "hao.zhang@example.com", "+0800"),
    Author("Ewa Kowalska", "ewa.kowalska@example.com", "+0100"),
    Author("Sam Okafor", "sam.okafor@example.com", "-0500"),
)
_WEIGHTS = (6, 4, 4, 3, 5, 2, 1)  # a few people write most of it, as everywhere


def pick_author(rng: random.Random) -> Author:
    """One of `AUTHORS`, some of whom commit more than others."""
    return rng.choices(AUTHORS, weights=_WEIGHTS)[0]


def spread(rng: random.Random, *, count: int, after: int, before: int) -> list[int]:
    """`count` increasing times, in seconds since the epoch, strictly between `after` and `before`."""
    step = (before - after) / (count + 1)
    return [int(after + step * (i + 1 + rng.uniform(-0.3, 0.3))) for i in range(count)]
