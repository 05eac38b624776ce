"""Affine expressions of loop variables: where a region starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Index:
    """`constant + sum of coefficient * variable`, in elements.

    >>> str(Index.variable("b") * 8 + 2)
    'b * 8 + 2'
    """

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    @staticmethod
    def variable(name: str) -> Index:
        """The value of one loop variable."""
        return Index(terms=((name, 1),))

    @staticmethod
    def of(value: Index | int) -> Index:
        """The value itself, or a constant."""
        return value if isinstance(value, Index) else Index(constant=value)

    def __add__(self, other: Index | int) -> Index:
        added = Index.of(other)
        coefficients = dict(self.terms)
        for name, coefficient in added.terms:
            coefficients[name] = coefficients.get(name, 0) + coefficient
        terms = tuple((name, value) for name, value in coefficients.items() if value)
        return Index(terms=terms, constant=self.constant + added.constant)

    def __mul__(self, factor: int) -> Index:
        terms = tuple((name, value * factor) for name, value in self.terms if factor)
        return Index(terms=terms, constant=self.constant * factor)

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def is_zero(self) -> bool:
        """Whether it is the constant 0."""
        return not self.terms and self.constant == 0

    def __str__(self) -> str:
        parts = [name if value == 1 else f"{name} * {value}" for name, value in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)
