"""Bisections of every kind, as reports have them."""

from tests.bisect.report.conftest import culprit

__all__ = ["culprit"]
