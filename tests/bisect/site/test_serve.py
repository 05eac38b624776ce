"""The server: the site's addresses and nothing else, its headers, and who may ask."""

import http.client
import threading
from collections.abc import Iterator

import pytest

from precision_bisect.bisect.site.addresses import bisection, task_graph
from precision_bisect.bisect.site.serve import SiteServer
from precision_bisect.store.database import read_store
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection


@pytest.fixture
def port(culprit: StoredBisection) -> Iterator[int]:  # noqa: F811
    with SiteServer(read_store(culprit.url), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def test_it_serves_the_pages_with_a_strict_policy(port: int) -> None:
    status, headers, body = ask(port, "/")
    assert (status, "Subject of c5" in body) == (200, True)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(port, "/index.html", "HEAD")[2] == ""


@pytest.mark.parametrize("path", ["/../store.sqlite", "/%2e%2e/store.sqlite", "/x", "/" + "a" * 999])
def test_other_addresses_do_not_exist(path: str, port: int) -> None:
    assert ask(port, path)[0] == 404


def test_it_only_reads_and_answers_to_its_own_name_alone(port: int) -> None:
    assert ask(port, "/", "POST")[0] == 501
    assert ask(port, "/", Host="evil.example")[0] == 421
    assert ask(port, "/", Host="127.evil.example")[0] == 421


def test_a_task_graph_may_run_its_script_and_has_no_origin(
    culprit: StoredBisection,  # noqa: F811
    port: int,
) -> None:
    report = culprit.request.output
    report.mkdir()
    (report / "task_graph.html").write_text("<script>1</script>")
    _, _, page = ask(port, f"/{bisection(culprit.name)}")
    assert task_graph(culprit.name).rpartition("/")[2] in page
    status, headers, body = ask(port, f"/{task_graph(culprit.name)}")
    assert (status, body) == (200, "<script>1</script>")
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")
