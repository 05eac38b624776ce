"""What other open bisections mean for the price of a build: one build serves all that want its content."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SharedBuilds:
    """Contents that were built for others, and how many other open bisections may want to build a content."""

    built: frozenset[str] = frozenset()
    wanted: Mapping[str, int] = field(default_factory=dict[str, int])

    def sharers(self, content: str | None) -> int:
        """How many bisections a build of some content may serve, the asking one included."""
        return 1 + (self.wanted.get(content, 0) if content is not None else 0)
