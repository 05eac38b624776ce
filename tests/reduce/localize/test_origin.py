"""Who is at fault, as a cause that runs have shown tells it."""

from precision_bisect.reduce.localize.causes import Cause
from precision_bisect.reduce.localize.changes import Change, ChangedPart
from precision_bisect.reduce.localize.document import add_cause_origin
from precision_bisect.runner.localization import GeneratedSources

OPEN = GeneratedSources(shown="generated sources differ")


def cause(*changes: Change, shown: bool = True) -> Cause:
    return Cause(changes=changes, effect=1.0, subject=None, shown=shown)


def test_a_generated_source_that_fails_alone_is_the_compiler_s() -> None:
    """Whatever the failure is, a stall too: nothing of its outputs is asked."""
    told = add_cause_origin(OPEN, [cause(Change(part=ChangedPart.ORCHESTRATION, file="main.cpp"))])
    assert told is not None
    assert told.origin == "compiler"
    assert told.verdict == (
        "compiler: put alone into the good build, what was generated differently in main.cpp makes it fail"
    )


def test_a_runtime_that_fails_with_the_good_sources_is_at_fault() -> None:
    told = add_cause_origin(OPEN, [cause(Change(part=ChangedPart.RUNTIME, file=""))])
    assert told is not None
    assert told.origin == "runtime"


def test_what_no_run_showed_settles_nothing() -> None:
    candidate = cause(Change(part=ChangedPart.ORCHESTRATION, file="main.cpp"), shown=False)
    for causes in ([], [candidate]):
        assert add_cause_origin(OPEN, causes) is OPEN
    assert OPEN.verdict == "compiler or runtime, which is not known: generated sources differ"
    assert add_cause_origin(None, [candidate]) is None
