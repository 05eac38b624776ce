"""A probe made at a host of a farm: in a slot of the host's own, of what the driver has sent."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError, reason
from ...process.interrupt import Interrupt
from ...workspace.content import StackContent
from ...workspace.home import Home
from ...workspace.workspace import Workspace
from ..files.archive import pack_folder
from ..files.digest import digest_of
from ..probe import Prober
from ..records import ProbeResult
from .host import forget, kept_of, lacking
from .parcel import ProbeParcel, unpack

_PATIENCE = 900.0
"""Seconds in which a driver has to send what is lacking; one that died may come back."""
_AGAIN = 5.0
"""Seconds after which it is said again that something is lacking."""

OnSlot = Callable[[int, str], None]
"""Told what a slot, by its number, does now."""


@dataclass(frozen=True, kw_only=True)
class MadeProbe:
    """What came of a probe at a host. Paths in `result` are the host's, below `directory`; all that was there is in the
    file whose digest is `kept`."""

    key: str
    result: ProbeResult
    directory: Path
    kept: str


@dataclass(frozen=True, kw_only=True)
class HostMachine:
    """A host: its home, the variables that commands inherit there, and for how many probes at once its cores are."""

    home: Home
    variables: Mapping[str, str]
    share: int

    def make(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        on_lack: Callable[[], None],
        on_activity: OnSlot,
        interrupt: Interrupt,
    ) -> MadeProbe:
        """Make a probe, once all that it needs has come.

        Raises:
            UserError: it cannot be made here.
            InterruptedWorkError: a stop is asked for.
        """
        directory = self.home.made / key / "run"
        try:
            self._await_contents(parcel, on_lack, interrupt)
            try:
                result = self._make(parcel, directory, on_activity, interrupt)
                kept = kept_of(self.home, key)
                pack_folder(directory, kept)
                return MadeProbe(key=key, result=result, directory=directory, kept=digest_of(kept))
            except BaseException:
                forget(self.home, key)
                raise
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        except OSError as error:
            raise UserError(
                f"{error.filename or self.home.cache}: expected to be able to write here: {reason(error)}"
            ) from error

    def _await_contents(self, parcel: ProbeParcel, on_lack: Callable[[], None], interrupt: Interrupt) -> None:
        begun = time.monotonic()
        said = -_AGAIN

        def has_come() -> bool:
            nonlocal said
            if not lacking(self.home, parcel):
                return True
            passed = time.monotonic() - begun
            if passed > _PATIENCE:
                raise UserError(
                    "expected the driver to send what this host lacks, found it silent; resume there"
                )
            if passed - said >= _AGAIN:
                said = passed
                on_lack()
            return False

        interrupt.wait(has_come)

    def _make(
        self, parcel: ProbeParcel, directory: Path, on_activity: OnSlot, interrupt: Interrupt
    ) -> ProbeResult:
        stack, request = unpack(parcel, self.home, directory)
        workspace = Workspace(stack, self.home)

        def tell(text: str) -> None:
            on_activity(prober.slot.index, text)

        with Prober(
            workspace,
            StackContent(stack, workspace),
            self.home,
            on_activity=tell,
            variables=self.variables,
            share=self.share,
            interrupt=interrupt,
            build_store=parcel.build_store,
        ) as prober:
            return prober.probe(request)
