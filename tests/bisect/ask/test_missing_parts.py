"""What is missing for a question is said before anything is run."""

import pytest

from precision_bisect.bisect.ask.ends import content_and_revisions
from precision_bisect.bisect.ask.prepare import check_requirements
from tests.bisect.drive.small_request import small_request
from tests.runner.small_stack import SmallStack


def test_what_a_platform_needs_of_the_shell(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note, for workers elsewhere may have it."""
    good = small.tool.git("rev-parse", "HEAD")
    bad = small.tool.commit("fault", {"tool.txt": "wrong\n"})
    workspace = small.workspace()
    request = small_request(small, workspace, good, bad)
    platform = request.stack.platforms[request.platform].model_copy(update={"needs": ("OF_A_BOARD",)})
    stack = request.stack.model_copy(update={"platforms": {request.platform: platform}})
    request = request.model_copy(update={"stack": stack})
    _, revisions = content_and_revisions(request, workspace)
    monkeypatch.setenv("OF_A_BOARD", "1")
    assert not check_requirements(request, workspace, revisions)
    monkeypatch.delenv("OF_A_BOARD")
    (told,) = check_requirements(request, workspace, revisions)
    assert told.startswith(f"platform {request.platform} needs OF_A_BOARD, which is not set here")
