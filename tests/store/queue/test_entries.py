"""The queue as it is shown: what waits and runs, the newest of what is over, with what came of each."""

from precision_bisect.bisect.listing import find_entry, queue_entries, session_reader
from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import open_store
from precision_bisect.store.queue import QueueJournal, QueueWorker
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.store.queue.test_submissions import submission
from tests.store.test_journal import key, result, stage

WORKER = QueueWorker(name="w", host="here", place="home")


def test_of_what_is_over_the_newest_are_shown_and_all_else(url: str) -> None:
    sessions = open_store(url)
    queue = QueueJournal(sessions)
    numbers = [queue.submit(submission(f"b{number}")) for number in range(5)]
    for number in (numbers[3], numbers[0], numbers[1]):
        queue.cancel(number)
    with sessions() as session:
        shown = queue_entries(session_reader(session), max_ended=2)
        assert find_entry(session_reader(session), 99) is None
    assert [each.id for each in shown] == [numbers[0], numbers[1], numbers[2], numbers[4]]
    assert [each.is_over for each in shown] == [True, True, False, False]
    assert shown[0].command == "bisect-precision --bad b"


def test_it_says_what_came_of_the_bisection(url: str) -> None:
    sessions = open_store(url)
    number = QueueJournal(sessions).submit(submission("one"))
    journal = BisectionJournal.begin(sessions, name="one", repository="r", good="g", bad="b", request={})
    first, second = (journal.probes.start(key(stage(journal), run=run)) for run in (1, 2))
    journal.probes.finish(first, result())
    journal.conclude(BisectionOutcome.CULPRIT, {"outcome": "culprit"})
    assert second > first
    with sessions() as session:
        found = find_entry(session_reader(session), number)
    assert found is not None
    assert (found.begun, found.runs, found.outcome) == (True, 1, BisectionOutcome.CULPRIT)
