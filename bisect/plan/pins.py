"""Pins: what a commit of one repository says about the versions of others."""

from collections.abc import Mapping

from ...runner.errors import UsageError
from ...runner.git.pin_files import PinReader
from ...runner.git.revisions import Revisions
from ...runner.stack.complaints import suggestion
from ...runner.stack.stack import Stack
from ..commits.moved_pin import MovedPin
from ..result import PinRecord


def choose_pins(stack: Stack, *, freeze: tuple[str, ...], search: tuple[str, ...]) -> Stack:
    """The stack with some pins frozen, or searched, whatever its file says. Raises `UsageError`."""
    pins = dict(stack.pins)
    for option, names in (("--freeze", freeze), ("--search", search)):
        for name in names:
            if name not in pins:
                known = f"one of the pins {', '.join(sorted(pins))}" if pins else "no pin: the stack has none"
                raise UsageError(f"{option} {name}: expected {known}{suggestion(name, sorted(pins))}")
            if name in freeze and name in search:
                raise UsageError(f"--freeze {name} --search {name}: expected one of them, found both")
            pins[name] = pins[name].model_copy(update={"search": option == "--search"})
    return stack.model_copy(update={"pins": pins})


def frozen_values(stack: Stack, revisions: Revisions, *, searched: str, bad: str) -> dict[str, str]:
    """What frozen pins are held at, by their names among revisions: what they say at the bad end, which stays as it
    failed. A pin that says nothing there is not held, nor one that holds the searched repository itself."""
    held: dict[str, str] = {}
    at_bad = revisions.complete({searched: bad})
    for name, pin in stack.pins.items():
        held_name = stack.held_name(name)
        value = revisions.pins.value(name, at_bad[pin.holder]) if pin.holder in at_bad else None
        if not pin.search and held_name != searched and value is not None:
            held[held_name] = value
    return held


def pin_records(
    stack: Stack,
    pins: PinReader,
    *,
    good: Mapping[str, str],
    bad: Mapping[str, str],
    frozen: Mapping[str, str],
) -> tuple[PinRecord, ...]:
    """All pins of the stack, at the revisions of both ends."""
    return tuple(
        PinRecord(
            name=name,
            holder=pin.holder,
            path=pin.path,
            value_good=pins.told(name, good[pin.holder]) if pin.holder in good else None,
            value_bad=pins.told(name, bad[pin.holder]) if pin.holder in bad else None,
            searched=pin.search,
            frozen_at=told_value(stack, name, frozen.get(stack.held_name(name))),
        )
        for name, pin in stack.pins.items()
    )


def moved_pins(stack: Stack, pins: PinReader, *, repository: str, old: str, new: str) -> list[MovedPin]:
    """The pins that differ between two commits of their holder, among those that are searched."""
    moved: list[MovedPin] = []
    for name, pin in stack.pins.items():
        if pin.holder == repository and pin.search:
            before, after = pins.value(name, old), pins.value(name, new)
            if before is not None and after is not None and before != after:
                held_name = stack.held_name(name)
                old_version, new_version = (stack.version_of(held_name, each) for each in (before, after))
                told = (old_version, new_version) if old_version and new_version else None
                moved.append(MovedPin(path=pin.path, held_name=held_name, old=before, new=after, told=told))
    return moved


def told_value(stack: Stack, name: str, value: str | None) -> str | None:
    """What a pin is held at, as people know it: a release by its version."""
    return None if value is None else stack.version_of(stack.held_name(name), value) or value
