"""Good and bad builds of a demo case, on the same frozen data, and stack files that replay them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from precision_bisect.demo.history.edit import Replace, TreeEdit
from precision_bisect.demo.scenarios import SETTINGS, DemoRepository, Scenario
from precision_bisect.reduce.localize.reference import GoodBuild, LocalizationRequest
from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.runner.case import shim
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.settings import load_stack
from tests.reduce.quick_runs import SERVERS, run_python

_TREES = Path(__file__).resolve().parents[2] / "demo" / "trees"


@dataclass(frozen=True)
class Trees:
    """A copy of the three trees with its runtime compiled, and a stack file that names them."""

    folder: Path

    @classmethod
    def make(
        cls,
        folder: Path,
        *,
        repository: DemoRepository | None = None,
        fault: TreeEdit | None = None,
        compiled: Trees | None = None,
    ) -> Trees:
        """Copies the trees to `folder`, with a fault planted in one of them; the runtime is compiled, or taken from
        `compiled`."""
        for name in DemoRepository:
            ignored = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")
            shutil.copytree(_TREES / name, folder / name, ignore=ignored)
        if repository is not None and fault is not None:
            for change in fault.changes:
                assert isinstance(change, Replace)
                file = folder / repository / change.path
                text = file.read_text()
                assert text.count(change.old) == 1
                file.write_text(text.replace(change.old, change.new))
        runtime = folder / DemoRepository.RUNTIME
        if compiled is not None:
            shutil.copytree(compiled.folder / DemoRepository.RUNTIME / "build", runtime / "build")
        else:
            subprocess.run([sys.executable, "build.py"], cwd=runtime, check=True, stdout=subprocess.DEVNULL)
        text = resources.files("precision_bisect.configs").joinpath("demo.toml").read_text("utf-8")
        text = text.replace("@ROOT@/minipto/runtime", "@ROOT@/minirt").replace("@ROOT@", str(folder))
        text = text.replace('PYTHONPATH = "{minilib}"', 'PYTHONPATH = "{minilib}:{minipto}:{minirt}"')
        (folder / "stack.toml").write_text(text)
        return cls(folder)

    def with_fault_of(self, scenario: Scenario, folder: Path) -> Trees:
        """Trees with the scenario's fault; the runtime is compiled again only where it is at fault."""
        setting = SETTINGS[scenario]
        compiled = None if setting.repository is DemoRepository.RUNTIME else self
        return Trees.make(folder, repository=setting.repository, fault=setting.fault, compiled=compiled)

    @property
    def stack_file(self) -> Path:
        return self.folder / "stack.toml"

    def toolchain(self) -> Toolchain:
        """Runs builds with this interpreter and these trees."""
        return Toolchain.create(
            load_stack(str(self.stack_file)), python=Path(sys.executable), servers=SERVERS
        )

    def build(self, case: str, folder: Path, *options: str, seed: int = 0) -> Path:
        """Runs a case on inputs drawn from `seed`; its build directory."""
        folder.mkdir(parents=True)
        path = os.pathsep.join(str(self.folder / name) for name in DemoRepository)
        run_python(
            [
                *(str(shim.__file__), "--outcome", str(folder / "outcome.json"), *options, "--"),
                *(str(self.folder / DemoRepository.LIBRARY / case), "-p", "a2a3sim", "-d", "0"),
            ],
            cwd=folder,
            environment={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            seed=seed,
        )
        (build,) = (folder / "build_output").iterdir()
        return build


@dataclass(frozen=True, kw_only=True)
class Twins:
    """A good and a bad build of one case, and the trees that made each."""

    good: Path
    bad: Path
    good_trees: Trees
    bad_trees: Trees

    @classmethod
    def make(
        cls,
        folder: Path,
        scenario: Scenario,
        good_trees: Trees,
        bad_trees: Trees | None = None,
        *,
        seed: int = 0,
    ) -> Twins:
        """Both builds of the scenario's case, on inputs drawn from `seed`; the faulty trees are made unless given."""
        bad_trees = bad_trees or good_trees.with_fault_of(scenario, folder / "trees")
        case = SETTINGS[scenario].case
        good = good_trees.build(case, folder / "good", "--save-data", seed=seed)
        bad = bad_trees.build(case, folder / "bad", "--golden-data", str(good / "data"))
        return cls(good=good, bad=bad, good_trees=good_trees, bad_trees=bad_trees)

    def request(self, output: Path, *, budget: int = 2**28) -> LocalizationRequest:
        """A localization of the bad build against the good one."""
        return LocalizationRequest(
            failing=self.bad,
            toolchain=self.bad_trees.toolchain(),
            reference=GoodBuild(path=self.good, toolchain=self.good_trees.toolchain()),
            golden_data=self.good / "data",
            tolerance=Tolerance(),
            budget=budget,
            attempts=8,
            timeout=300,
            output=output,
        )
