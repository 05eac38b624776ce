"""Files beside a report: shown and packed where they are plain files of its folder, and never beyond it."""

import io
import tarfile
from pathlib import Path

from benchmarks.site.browser import Browser
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.bisect.pages.views import archive, reduced_files, task_graph
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection

PAGE = "<!doctype html><title>Tasks</title><script>document.title = 'drawn'</script>"


def make_reduced(report: Path) -> None:
    """As `reduce` does: a link leads to the newest version, and older ones lie beside it."""
    for version in ("1", "2"):
        made = report / "reduced" / "versions" / version
        (made / "bad" / "kernels").mkdir(parents=True)
        (made / "bad" / "kernels" / "k.cpp").write_text(f"int k{version};")
        (made / "check.sh").write_text("#!/bin/sh\n")
        (made / "check.sh").chmod(0o700)
    (report / "reduced" / "result").symlink_to("versions/2")


def test_the_reduced_build_is_packed_the_same_each_time(tmp_path: Path) -> None:
    make_reduced(tmp_path)
    packed = archive(tmp_path)
    (tmp_path / "reduced" / "result" / "check.sh").touch()
    assert archive(tmp_path) == packed
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        modes = {entry.name: entry.mode for entry in tar}
        kernel = tar.extractfile("reduced/bad/kernels/k.cpp")
        assert kernel is not None
        assert kernel.read() == b"int k2;"
    assert modes == {"reduced/bad/kernels/k.cpp": 0o644, "reduced/check.sh": 0o755}


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    report = tmp_path / "report"
    make_reduced(report)
    (report / "reduced" / "result" / "file").symlink_to(secret / "key")
    (report / "reduced" / "result" / "folder").symlink_to(secret)
    (report / "task_graph.html").symlink_to(secret / "key")
    names = {file.name for file in reduced_files(report)}
    assert names == {"k.cpp", "check.sh"}
    assert task_graph(report) is None
    (report / "reduced" / "result").unlink()
    (report / "reduced" / "result").symlink_to(secret)
    assert reduced_files(report) == []
    other = tmp_path / "other"
    other.mkdir()
    (other / "reduced").symlink_to(report / "reduced" / "versions")
    (report / "reduced" / "versions" / "result").symlink_to("2")
    assert reduced_files(other) == []


def test_a_folder_of_too_many_files_is_not_packed(tmp_path: Path) -> None:
    make_reduced(tmp_path)
    assert len(reduced_files(tmp_path)) == 2
    kernels = tmp_path / "reduced" / "versions" / "2" / "bad" / "kernels"
    for number in range(2000):
        (kernels / f"{number}.cpp").touch()
    assert reduced_files(tmp_path) == []


def test_pages_lead_to_the_files(culprit: StoredBisection, tmp_path: Path, browser: Browser) -> None:  # noqa: F811
    report = culprit.request.output
    make_reduced(report)
    (report / "task_graph.html").write_text(PAGE)
    site = tmp_path / "site"
    write_site(culprit.sessions, site)
    (graph,) = site.glob("bisections/*-tasks.html")
    assert graph.read_text() == PAGE
    (page,) = [page for page in site.glob("bisections/*.html") if page != graph]
    browser.open(page)
    links = browser.ask("return [...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))")
    assert graph.name in links
    (packed,) = site.glob("bisections/*-reduced.tar.gz")
    assert packed.name in links
