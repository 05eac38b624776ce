"""Stores of builds that a test starts: each is a URL to write to, one to read from, and the folder of a plain one."""

import functools
import http.server
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, str]]:
    """A folder that all machines see."""
    yield str(tmp_path / "shared"), f"file://{tmp_path}/shared"


@contextmanager
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, str]]:
    """A folder that Python's own server gives to read."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    root = tmp_path / "shared"
    root.mkdir()
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(root), f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, str]]:
    """A bucket of moto's server, which speaks the protocol of S3."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    moto: Any = pytest.importorskip("moto.server", reason="moto is not installed")
    boto3: Any = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, text in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, text)
    try:
        # Its servers in one process share their buckets.
        bucket = secrets.token_hex(8)
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket=bucket)
        yield f"s3://{bucket}/builds", f"s3://{bucket}/builds"
    finally:
        server.stop()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


SERVERS: dict[str, Callable[..., Any]] = {"folder": folder, "web": web, "s3": s3}
ALL = ("folder", "web", pytest.param("s3", marks=pytest.mark.long))
"""Their names; a bucket takes seconds."""
