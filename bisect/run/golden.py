"""The golden data of one bisection, frozen once."""

from pathlib import Path

from ...runner.case.golden import FrozenGolden, freeze, thaw
from ...runner.errors import UserError
from ..engine.needs import GivenData, SavedData


def earlier_golden(digest: str | None, store: Path) -> FrozenGolden | None:
    """The data that an earlier start has frozen. Raises `UserError` where they are gone or changed."""
    return None if digest is None else thaw(digest, store)


def freeze_golden(
    source: GivenData | SavedData, *, given: Path | None, probes: Path, store: Path
) -> FrozenGolden:
    """Freeze what the user named, or what a probe of the good end saved below `probes`. Raises `UserError`."""
    if isinstance(source, GivenData):
        assert given is not None
        return freeze(given, store)
    build = probes / f"{source.probe:04d}" / "build"
    if not build.is_dir():
        raise UserError(
            f"good {source.commit[:12]}: expected the run to leave a build directory with data/in and data/out, "
            "found none; name frozen data with --golden-data DIR"
        )
    return freeze(build / "data", store)
