"""Bisections of every kind, as reports have them."""

from tests.bisect.report.conftest import culprit, nothing_run

__all__ = ["culprit", "nothing_run"]
