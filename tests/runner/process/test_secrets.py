"""What a run prints of a secret is its variable's name; all else stays as it was printed."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.process.run import Command, Secrets, execute

SECRETS = {
    "GITHUB_PAT": "ghp_a1b2c3d4",
    "MYSQL_PWD": "hunter22x",
    "SSHPASS": "correcthorsebattery",
    "JWT": "eyJhbGciOi.eyJzdWIi.c2ln",
    "COOKIE": "sid=0a1b2c3d",
    "SLACK_WEBHOOK": "https://hooks.slack.com/services/T0/B0/x1y2",
    "NPM_CONFIG__AUTH": "bnBtOnB3MQ==",
    "DATABASE": "postgres://me:s3cr3tpass@host/db",
    "DATABASE_URL": "postgres://host/db?user=me&password=qu3ryPart&sslmode=require",
    "GIT_CONFIG_VALUE_0": "Authorization: Basic dXNlcjpwdzE=",
    "CARGO_REGISTRY_TOKEN": "cio0a1b2c3d4",
    "AWS_SECRET_ACCESS_KEY": "/wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKE",
    "UNKNOWN": "zX9zX9zX9zX9zX9z",
}
COMMON = {
    "TOKENIZERS_PARALLELISM": "false",
    "KEY_TYPE": "ed25519",
    "MONKEY": "12345678.0",
    "KEYRING_FILE": "/usr/share/keyrings/all.gpg",
    "KEYBOARD": "american",
    "DEPTH": "3",
    "PROJECT_1": "/work/project-1/checkout",
    "HOSTNAME": "machine-0123456789-abcdef",
    "MY_TOKEN": "machine-0123456789",
    "OMP_NUM_THREADS": "16",
    "LD_LIBRARY_PATH": "/opt/lib64/version-1234567",
    "EMPTY_TOKEN": "",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_replaced_by_its_name(name: str) -> None:
    hidden = Secrets({**SECRETS, **COMMON}).hide(f"it is {SECRETS[name]}, twice {SECRETS[name]}".encode())
    assert hidden.count(f"***{name}***".encode()) == 2
    assert SECRETS[name].encode() not in hidden


@pytest.mark.parametrize("part", ["s3cr3tpass", "dXNlcjpwdzE=", "qu3ryPart"])
def test_the_part_that_matters_is_hidden_alone_too(part: str) -> None:
    assert part.encode() not in Secrets(SECRETS).hide(f"login {part}".encode())


@pytest.mark.parametrize("write", [json.dumps, repr])
def test_a_secret_is_hidden_as_other_programs_write_it(write: Callable[[str], str]) -> None:
    secret = "hu\"sh\\qu'iet7x"
    hidden = Secrets({"DEPLOY_TOKEN": secret}).hide(f"login {write(secret)}".encode())
    assert b"iet7x" not in hidden


def test_each_line_of_a_key_is_hidden() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0", "x8Yb1Tq0uV3zK7w"]
    hidden = Secrets({"DEPLOY_KEY": "\n".join(lines)}).hide("\n> ".join(lines).encode())
    assert b"MIIE" not in hidden
    assert b"x8Yb" not in hidden


@pytest.mark.parametrize("before", [65_536 - 4, 65_536 - 11, 65_536, 65_536 + 9])
def test_no_part_of_a_secret_is_left_where_a_line_is_cut(tmp_path: Path, before: int) -> None:
    (tmp_path / "told").write_text("x" * before + SECRETS["GITHUB_PAT"] * 3 + "y" * 200_000)
    lines: list[str] = []
    command = Command(argv=["cat", "told"], cwd=tmp_path, environment={**os.environ, **SECRETS}, timeout=60)
    execute(command, log=tmp_path / "log.gz", on_line=lambda _, line: lines.append(line))
    kept = gzip.decompress((tmp_path / "log.gz").read_bytes()).decode()
    assert kept == f"{lines[0]}\n"
    assert kept.endswith(" [line cut]\n")
    assert "ghp_" not in kept
    assert len(kept) > 65_000


@pytest.mark.parametrize("name", COMMON)
def test_paths_numbers_and_common_words_stay(name: str) -> None:
    text = f"{COMMON[name]} and error: 12345678.0 false american in /work/project-1/checkout/a.py".encode()
    assert Secrets(COMMON).hide(text) == text


def test_neither_the_log_nor_the_listener_gets_a_secret(tmp_path: Path) -> None:
    heard: list[str] = []
    secret = SECRETS["GITHUB_PAT"]
    script = 'printf %s ghp_; echo a1b2c3d4 $GITHUB_PAT >&2; echo "$GITHUB_PAT$GITHUB_PAT"'
    execute(
        Command(
            argv=["sh", "-c", script],
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"], "GITHUB_PAT": secret},
            timeout=60,
        ),
        log=tmp_path / "log.gz",
        on_line=lambda _stream, line: heard.append(line),
    )
    assert sorted(heard) == ["a1b2c3d4 ***GITHUB_PAT***", f"ghp_{'***GITHUB_PAT***' * 2}"]
    assert secret.encode() not in gzip.decompress((tmp_path / "log.gz").read_bytes())
    assert (tmp_path / "log.gz").stat().st_mode & 0o777 == 0o600
