"""The options of a case are asked for once where the content that decides them is the same."""

import os

from precision_bisect.runner.probe.builder import BuiltToolchain
from precision_bisect.runner.probe.probe import CaseOptionsCache, PreparedSlot
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.environment import EnvironmentReader
from precision_bisect.store.vocabulary import BuildSource
from tests.runner.small_stack import SmallStack


def offered(small: SmallStack, *, surroundings: str) -> frozenset[str]:
    """What a new reader of options finds."""
    workspace = small.workspace()
    slot = workspace.acquire()
    request = small.request()
    for name, sha in request.revisions.items():
        workspace.ensure_commit(name, sha)
    slot.check_out(request.revisions)
    toolchain = BuiltToolchain(key="one", source=BuildSource.PRESENT, seconds=0.0, step_seconds={})
    prepared = PreparedSlot(
        surroundings={"python": surroundings},
        environment=dict(os.environ),
        case_environment=dict(os.environ),
        values={**small.values(slot), "case": str(slot.path("cases") / "case.sh")},
        built=toolchain,
    )
    options = CaseOptionsCache(
        small.home.options,
        workspace.stack,
        StackContent(workspace.stack, workspace),
        EnvironmentReader(workspace.stack, {}),
    )
    try:
        return options.read_options(slot, request, prepared, toolchain)
    finally:
        slot.release()


def test_the_help_is_read_once_for_each_surroundings(small: SmallStack) -> None:
    log = small.folder / "asked.log"
    script = f"echo >> {log}; echo '  --dump-args [N]'; echo '  -p, --platform NAME'"
    small.case = {"help": ["sh", "-c", script]}
    found = [offered(small, surroundings=version) for version in ("3.11", "3.11", "3.12")]
    assert found == [frozenset({"--dump-args", "--platform"})] * 3
    assert len(log.read_text().splitlines()) == 2


def test_a_kept_file_that_is_torn_is_asked_for_again(small: SmallStack) -> None:
    small.case = {"help": ["sh", "-c", "echo '  --dump'"]}
    assert offered(small, surroundings="3.11") == {"--dump"}
    (kept,) = small.home.options.iterdir()
    kept.write_text('["--du')
    assert offered(small, surroundings="3.11") == {"--dump"}
    assert kept.read_text() == '["--dump"]'


def test_a_case_without_help_offers_nothing(small: SmallStack) -> None:
    assert offered(small, surroundings="3.11") == frozenset()
