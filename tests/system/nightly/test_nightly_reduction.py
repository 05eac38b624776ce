"""A night on the demo stack as it is, with kernels that really run: one incident, one reduction, its page."""

import subprocess
from collections.abc import Callable

import pytest

from precision_bisect.bisect.pages.site import write_site
from precision_bisect.demo.scenarios import Scenario
from precision_bisect.store.database import open_read_only, sqlite_url
from tests.bisect.pages.test_site_folder import check_pages
from tests.system.conftest import DemoStack

pytestmark = pytest.mark.long

_NIGHTLY = """
job = "demo"
stack = "stack/stack.toml"
branches = ["main"]
cases = ["{case}"]
platforms.a2a3sim = {{}}
reruns = 1
confidence = 0.9
output = "nights"
"""


def test_an_incident_has_its_reduced_build_on_its_page(make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.RUNTIME_BUMP)
    folder = stack.directory.parent
    (folder / "nightly.toml").write_text(_NIGHTLY.format(case=stack.truth.case))
    compiler = stack.directory / "minipto"

    def move(commit: str) -> None:
        subprocess.run(["git", "-C", str(compiler), "checkout", "--quiet", "-B", "main", commit], check=True)

    move(stack.truth.good)
    passed = stack.run("nightly", str(folder / "nightly.toml"))
    assert passed.code == 0, passed.err
    move(stack.truth.bad)
    failed = stack.run("nightly", str(folder / "nightly.toml"))
    assert failed.code == 7, failed.err

    sessions = open_read_only(sqlite_url(folder / "home" / "state" / "store.sqlite"))
    site = folder / "site"
    write_site(sessions, site)
    check_pages(site)
    (page,) = site.glob("jobs/*/incident-1.html")
    text = page.read_text(encoding="utf-8")
    assert "First divergent tensor" in text
    assert 'class="heat"' in text
    assert len(list(site.glob("bisections/*-tasks.html"))) == 1
    assert len(list(site.glob("bisections/*-reduced.tar.gz"))) == 1
    assert stack.truth.culprits[0].commit[:12] in failed.out
