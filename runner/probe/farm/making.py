"""A probe made at a host of a farm: in a slot of the host's own, of what the driver has sent."""

import contextlib
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError, reason
from ...process.interrupt import Interrupt, InterruptedWorkError
from ...stack.stack import Stack
from ...workspace.content import StackContent
from ...workspace.home import Home
from ...workspace.workspace import Workspace
from ..files.archive import pack_folder
from ..files.digest import digest_of
from ..probe import Prober
from ..records import ProbeResult
from .bounded import in_use, trim
from .host import forget, kept_of, lacking
from .objects import Objects
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


def attempted(make: Callable[[], MadeProbe]) -> MadeProbe | Exception | None:
    """What an engine carries of an attempt to make a probe at a host: the probe; None where it was stopped, or why it
    cannot be made there."""
    try:
        return make()
    except InterruptedWorkError:
        return None
    except UserError as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


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
            with ExitStack() as held:
                directory.mkdir(parents=True, exist_ok=True)
                held.enter_context(in_use([directory.parent]))
                try:
                    self._await_contents(parcel, on_lack, interrupt, held)
                    self._trim(parcel.stack)
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

    def _trim(self, stack: Stack) -> None:
        """Bound what is kept for drivers as builds are."""
        for folder in (self.home.objects, self.home.made):
            trim(folder, most_bytes=int(stack.limits.build_cache_gib * (1 << 30)))

    def _await_contents(
        self, parcel: ProbeParcel, on_lack: Callable[[], None], interrupt: Interrupt, held: ExitStack
    ) -> None:
        """Wait until all has come, and hold the objects until `held` ends."""
        begun = time.monotonic()
        said = -_AGAIN

        def has_come() -> bool:
            nonlocal said
            if not lacking(self.home, parcel):
                objects = Objects(self.home.objects)
                # Without it another probe may have removed one just now.
                with contextlib.suppress(FileNotFoundError):
                    held.enter_context(in_use(objects.path(digest) for digest in sorted(parcel.objects)))
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

        frozen = request.options.runtime_dir
        with (
            in_use([] if frozen is None else [frozen]),
            Prober(
                workspace,
                StackContent(stack, workspace),
                self.home,
                on_activity=tell,
                variables=self.variables,
                share=self.share,
                interrupt=interrupt,
                build_store=parcel.build_store,
            ) as prober,
        ):
            return prober.probe(request)
