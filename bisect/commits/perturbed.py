"""A range, and what is run of it, under a perturbation: the same commits and builds, with contents of their own."""

from dataclasses import dataclass, replace

from ...runner.workspace.perturbations import UNDER, content_under
from .range import LoadedRange


@dataclass(frozen=True, kw_only=True)
class OfferedPerturbation:
    """A perturbation that can be tried on this machine: its name, what tells it from others, and what it changes."""

    name: str
    key: str
    told: str

    def content(self, of: str) -> str:
        """The content of a run of some content under it."""
        return content_under(of, self.key)


def range_under(loaded: LoadedRange, perturbation: OfferedPerturbation) -> LoadedRange:
    """A range as it is run under a perturbation. What others could not build is built no better under it."""
    contents = {
        commit: None if content is None else perturbation.content(content)
        for commit, content in loaded.contents.items()
    }
    return replace(
        loaded,
        range=replace(loaded.range, held={**loaded.range.held, UNDER: perturbation.name}),
        contents=contents,
        old_content=perturbation.content(loaded.old_content),
        new_content=perturbation.content(loaded.new_content),
        earlier_skips={
            perturbation.content(content): errors for content, errors in loaded.earlier_skips.items()
        },
        builds={
            perturbation.content(content): build
            for content in (*filter(None, loaded.contents.values()), loaded.old_content)
            if (build := loaded.build_of(content))
        },
    )
