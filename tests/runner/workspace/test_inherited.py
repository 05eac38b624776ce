"""Which variables of a shell are kept with a bisection, and which never."""

from pathlib import Path

from precision_bisect.runner.workspace.environment import (
    InheritedVariables,
    case_variables,
    inherited_variables,
    variable_changes,
)
from precision_bisect.runner.workspace.home import Home
from tests.runner.small_stack import SmallStack

SHELL = {
    "MALLOC_PERTURB_": "165",
    "OMP_NUM_THREADS": "4",
    "LC_ALL": "C",
    "LD_LIBRARY_PATH": "/opt/lib",
    "PYTHONPATH": "/elsewhere",
    "CXXFLAGS": "-O3",
    "HOME": "/root",
    "PATH": "/bin",
    "TERM": "xterm",
    "XDG_RUNTIME_DIR": "/run/user/0",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "GIT_DIR": "/elsewhere/.git",
    "PRECISION_BISECT_HOME": "/home",
    "BASH_FUNC_module%%": "() { :; }",
    "HF_TOKEN": "hf_1",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "DB_PASSWORD": "p",
    "api_key": "k",
    "http_proxy": "http://me:mine@proxy:3128",
}


KEY = b"key"


def test_what_may_change_a_result_is_kept_and_of_what_nobody_lists_no_value() -> None:
    shell = {
        **SHELL,
        "CARGO_REGISTRY_TOKEN": "cargo",
        "GITHUB_PAT": "ghp_1",
        "DEPTH": "31337",
        "NPM_CONFIG__AUTH": "npm",
    }
    kept = inherited_variables(shell, key=KEY)
    assert list(kept.values) == [
        "CXXFLAGS", "LC_ALL", "LD_LIBRARY_PATH", "MALLOC_PERTURB_", "OMP_NUM_THREADS", "PATH", "PYTHONPATH",
    ]  # fmt: skip
    assert list(kept.digests) == [
        "AWS_SECRET_ACCESS_KEY", "CARGO_REGISTRY_TOKEN", "DB_PASSWORD", "DEPTH", "GITHUB_PAT", "HF_TOKEN",
        "NPM_CONFIG__AUTH", "api_key", "http_proxy",
    ]  # fmt: skip
    document = kept.model_dump_json()
    secrets = ("hf_1", '"aws"', "mine", '"k"', "cargo", "ghp_1", "31337", '"npm"')
    assert not any(secret in document for secret in secrets)


def test_a_digest_tells_values_apart_to_who_has_the_key_alone() -> None:
    once, again, other = (inherited_variables({"PIN": pin}, key=KEY).digests for pin in ("1", "1", "2"))
    assert once == again != other
    assert inherited_variables({"PIN": "1"}, key=b"another").digests != once
    assert inherited_variables({"PAN": "1"}, key=KEY).digests["PAN"] != once["PIN"]


def test_the_key_is_created_once_for_each_home_and_its_owner_s_alone(
    small: SmallStack, tmp_path: Path
) -> None:
    key = small.home.key()
    assert small.home.state.stat().st_mode & 0o777 == 0o700
    assert (small.home.state / "key").stat().st_mode & 0o777 == 0o600
    assert small.home.key() == key
    assert key != Home(cache=tmp_path / "c", state=tmp_path / "s").key()


def test_what_a_stack_sets_or_watches_or_takes_away_is_not_the_shell_s(small: SmallStack) -> None:
    small.environment = {"matters": ["CXXFLAGS"], "variables": {"OMP_NUM_THREADS": "1", "PY": "{python}"}}
    assert list(case_variables(small.stack(), small.home, SHELL).values) == [
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "MALLOC_PERTURB_",
        "PATH",
    ]
    small.environment = {}
    assert "PYTHONPATH" in case_variables(small.stack(), small.home, SHELL).values


def test_what_nothing_is_known_to_read_is_set_apart_and_its_changes_are_told() -> None:
    shell = {"MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "4", "DEPTH": "3", "WIFI": "on", "HF_TOKEN": "x"}
    kept = inherited_variables(shell, key=KEY)
    read = kept.split_by_use({"DEPTH", "HF_TOKEN"})
    assert read.values == {"MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "4"}
    assert (list(read.digests), list(read.unread)) == (["DEPTH", "HF_TOKEN"], ["WIFI"])
    assert list(variable_changes(read, kept)) == []
    now = inherited_variables({**shell, "WIFI": "off"}, key=KEY)
    assert list(variable_changes(read, now)) == ["WIFI has another value"]


def test_the_digests_of_another_home_are_not_compared() -> None:
    shell = {"MALLOC_PERTURB_": "165", "DEPTH": "3", "HF_TOKEN": "x"}
    here, elsewhere = (inherited_variables(shell, key=key) for key in (KEY, b"another"))
    (change,) = variable_changes(here, elsewhere)
    assert change == (
        "DEPTH, HF_TOKEN may have another value: another home made the digests, with a key of its own"
    )


def test_changes_are_phrases_without_values_that_were_not_kept() -> None:
    before = inherited_variables({"LANG": "1", "TZ": "2", "MY_TOKEN": "x", "A": "secret"}, key=KEY)
    now = inherited_variables({"TZ": "3", "CC": "4", "A": "hidden"}, key=KEY)
    assert list(variable_changes(before, before)) == []
    assert list(variable_changes(before, now)) == [
        "A has another value",
        "CC is 4, was not set",
        "LANG was 1, is not set",
        "MY_TOKEN was set, is not set",
        "TZ was 2, is 3",
    ]


def test_of_what_an_earlier_version_kept_only_what_is_listed_is_read() -> None:
    old = {
        "values": {"OMP_NUM_THREADS": "4", "GITHUB_PAT": "ghp_1"},
        "hidden": ["HF_TOKEN"],
        "unread": {"MYSQL_PWD": "p"},
    }
    kept = InheritedVariables.model_validate(old)
    assert kept.values == {"OMP_NUM_THREADS": "4"}
    assert (kept.digests, kept.unread) == ({"GITHUB_PAT": "", "HF_TOKEN": ""}, {"MYSQL_PWD": ""})
    now = inherited_variables({"OMP_NUM_THREADS": "4", "GITHUB_PAT": "ghp_2"}, key=KEY)
    assert list(variable_changes(kept, now)) == [
        "HF_TOKEN was set, is not set",
        "MYSQL_PWD was set, is not set",
    ]
