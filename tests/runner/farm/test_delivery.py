"""What a driver sends to hosts, some of which have several workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from precision_bisect.runner.farm import host
from precision_bisect.runner.farm.farm import Delivery
from precision_bisect.runner.farm.host import ParcelMaker
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Workspace
from tests.runner.farm.hosts import Hosts
from tests.runner.small_stack import SmallStack


class _OneHost(Hosts):
    """Workers a and b are of one host, with one home. `meanwhile` happens once, before b takes the first pack in."""

    meanwhile: Callable[[], None] | None = None

    def home(self, place: str) -> Home:
        return super().home("both")

    def ask(self, place: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if place == "b" and function is host.take_pack and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return super().ask(place, function, *arguments, **named)


def test_two_workers_of_one_host_are_sent_the_same_commits_at_once(small: SmallStack, tmp_path: Path) -> None:
    stack, hosts = small.stack(), _OneHost(tmp_path / "hosts")
    parcels = ParcelMaker(stack, Workspace(stack, small.home), tmp_path / "objects")
    parcel = parcels.parcel(small.request())
    delivery = Delivery(hosts, parcels)
    hosts.meanwhile = lambda: delivery.send(parcel, "a")
    delivery.send(parcel, "b")
    assert hosts.sent.count("take_pack") == 2 * len(parcel.commits)
    home = hosts.home("a")
    assert not host.find_missing(home, parcel)
    assert {file.name for file in home.objects.iterdir()} == set(parcel.objects)
