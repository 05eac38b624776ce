"""A stack of three tiny repositories: a tool, its runtime (a submodule at `rt`), and cases. Builds are in shell."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precision_bisect.runner.case.case import CaseName, RunOptions
from precision_bisect.runner.pins import Revisions, fixed_revisions
from precision_bisect.runner.probe.builder import Builder, BuiltToolchain, FailedBuild
from precision_bisect.runner.probe.judge import JudgingRule
from precision_bisect.runner.probe.probe import Prober, ProbeRequest, ProbeResult
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Slot, Workspace
from tests.conftest import TestRepository

VERDICTS = [
    {"verdict": "mismatch", "pattern": "^WRONG (?P<output>\\w+)"},
    {"verdict": "pass", "pattern": "^RIGHT$"},
]
CASE = "grep -q good {tool}/tool.txt && echo RIGHT || { echo WRONG y; exit 1; }"


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below a folder, `.git` included: kind, mode, time and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content: object = path.readlink()
        elif path.is_file():
            content = (hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns)
        else:
            content = "folder"
        found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


@dataclass
class SmallStack:
    """The repositories in `folder`, and all that is made of them in `home`."""

    folder: Path
    home: Home
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])
    steps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    case: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repositories: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    perturbations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    platforms: Mapping[str, Any] = field(default_factory=lambda: {"sim": {}, "board": {"board": True}})

    def __post_init__(self) -> None:
        self.rt = TestRepository(self.folder / "rt-origin")
        self.rt.commit("rt", {"rt.txt": "rt 1\n"})
        self.tool = TestRepository(self.folder / "tool")
        self.tool.git("submodule", "--quiet", "add", str(self.rt.path), "rt")
        self.tool.commit("tool", {"tool.txt": "good 1\n"})
        self.cases = TestRepository(self.folder / "cases")
        self.cases.commit("cases", {"case.sh": "echo case\n"})

    def move_runtime(self, text: str) -> str:
        """A new commit of the runtime, and the commit of the tool that moves its pin there."""
        sha = self.rt.commit(text, {"rt.txt": text})
        self.tool.git("-C", "rt", "fetch", "--quiet")
        self.tool.git("-C", "rt", "checkout", "--quiet", sha)
        return self.tool.commit(f"move rt to {text}", {})

    def stack(self) -> Stack:
        """The stack file as it stands now."""
        paths = {"tool": "tool", "rt": "tool/rt", "cases": "cases"}
        return Stack.model_validate(
            {
                "name": "small",
                "searched": "tool",
                "repositories": {
                    name: {"path": self.folder / path, **self.repositories.get(name, {})}
                    for name, path in paths.items()
                },
                "pins": {"rt": {"kind": "gitlink", "holder": "tool", "path": "rt", "target": "rt"}},
                "environment": self.environment,
                "steps": self.steps,
                "case": {
                    "repository": "cases",
                    "command": ["sh", "-c", CASE],
                    "cwd": "{cases}",
                    "harness": False,
                    **self.case,
                },
                "platforms": self.platforms,
                "verdicts": VERDICTS,
                "limits": self.limits,
                "perturbations": self.perturbations,
            }
        )

    def workspace(self) -> Workspace:
        """Its clones and slots."""
        return Workspace(self.stack(), self.home)

    def revisions(self, workspace: Workspace, **chosen: str) -> dict[str, str]:
        """The commits of all repositories with the tool at its HEAD, or as chosen."""
        fixed = fixed_revisions(workspace.stack, workspace.repositories, searched="tool")
        chosen = {"tool": self.tool.git("rev-parse", "HEAD"), **chosen}
        return Revisions(workspace.stack, workspace.clones, fixed).complete(chosen)

    def values(self, slot: Slot) -> dict[str, str]:
        """What the placeholders stand for in a slot."""
        return {
            "python": str(slot.python),
            "slot": str(slot.directory),
            "jobs": "1",
            **{name: str(slot.path(name)) for name in ("tool", "rt", "cases")},
        }

    def build(
        self,
        workspace: Workspace,
        slot: Slot,
        *,
        surroundings: Mapping[str, str] | None = None,
        **chosen: str,
    ) -> BuiltToolchain | FailedBuild:
        """Check out and build."""
        revisions = self.revisions(workspace, **chosen)
        for name, sha in revisions.items():
            workspace.ensure_commit(name, sha)
        slot.check_out(revisions)
        builder = Builder(workspace.stack, StackContent(workspace.stack, workspace), self.home.builds)
        return builder.build(
            slot,
            revisions,
            surroundings=surroundings or {},
            environment=dict(os.environ),
            values=self.values(slot),
            logs=self.folder / "logs",
            on_step=lambda _: None,
        )

    def prober(self, on_activity: Callable[[str], None] = lambda _: None) -> Prober:
        """What makes probes."""
        workspace = self.workspace()
        content = StackContent(workspace.stack, workspace)
        return Prober(workspace, content, self.home, on_activity=on_activity)

    def request(self, **changes: Any) -> ProbeRequest:
        """What a probe is asked; `changes` are fields of it, or in `chosen` commits by repository."""
        chosen = changes.pop("chosen", {})
        standard: dict[str, Any] = {
            "revisions": self.revisions(self.workspace(), **chosen),
            "case": CaseName.parse("case.sh", self.stack()),
            "platform": "sim",
            "device": 0,
            "golden": None,
            "judging_rule": JudgingRule.parse("mismatch"),
            "options": RunOptions(),
            "timeout": 60.0,
            "directory": self.folder / "probe",
        }
        return ProbeRequest(**{**standard, **changes})

    def probe(self, prober: Prober, **changes: Any) -> ProbeResult:
        """One probe of such a request."""
        return prober.probe(self.request(**changes))
