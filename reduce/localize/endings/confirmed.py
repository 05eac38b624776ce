"""Whether a build that does not get to its outputs ends so again, and the good one otherwise.

A machine that is too slow, or short of memory, ends any run.
"""

from __future__ import annotations

from ....runner.errors import UserError
from ....store.vocabulary import Verdict
from ...replay.runnable_build import RunnableBuild
from ..experiments.experiment import RunOnce, Steps, Tell


class NotConfirmedError(UserError):
    """How a build ended is not known to be due to what differs from the good one."""


_MOST_AGAIN = 3
"""Runs in which an ending that comes and goes may show itself again."""


def confirm_ending(failing: RunnableBuild, good: RunnableBuild, verdict: Verdict) -> Steps[int]:
    """Run the failing build until it ends with `verdict` again, and the good one once, before anything in which the two
    differ is blamed; how many runs of the failing build that took.

    Raises:
        NotConfirmedError: the failing build ends otherwise each time, or the good one ends so too.
        UserError: a build cannot be run.
    """
    yield from Tell(f"it ended with {verdict.value}: running it again, and the good build")
    found: list[Verdict] = []
    while verdict not in found:
        if len(found) == _MOST_AGAIN:
            raise NotConfirmedError(
                f"{failing.path}: expected it to end with {verdict.value} again, found in {_MOST_AGAIN} further runs: "
                f"{', '.join(each.value for each in found)}; nothing is blamed for that: is the machine too busy, or "
                "--timeout too short?"
            )
        ran = yield from RunOnce(build=failing, name=f"ending/again-{len(found) + 1}")
        found.append(ran.classification.verdict)
    beside = yield from RunOnce(build=good, name="ending/good")
    if beside.classification.verdict is verdict:
        raise NotConfirmedError(
            f"{good.path}: expected a good build, found that it ends with {verdict.value} as the failing one does: "
            f"{beside.why[:200]}; nothing in which they differ is blamed; see {beside.log}"
        )
    return len(found)
