"""How many tests an ideal bisection takes: the yardstick for any other."""


def total_steps(suspects: int) -> int:
    """The fewest tests, summed over each position of the culprit, that find it among so many suspects.

    The external path length of the complete binary tree with n leaves, n k + 2 (n - 2^k) where 2^k is the
    largest power of two not above n (Knuth, The Art of Computer Programming, volume 3, section 6.2.1).
    Raises ValueError for less than one suspect.

    >>> [total_steps(suspects) for suspects in (1, 2, 3, 4, 5, 8)]
    [0, 2, 5, 8, 12, 24]
    """
    if suspects < 1:
        raise ValueError(f"expected at least one suspect, found {suspects}")
    k = suspects.bit_length() - 1
    return suspects * k + 2 * (suspects - (1 << k))


def expected_steps(suspects: int) -> float:
    """The mean of `total_steps` over the positions; log2(n) for a power of two."""
    return total_steps(suspects) / suspects
