"""Which variables of a shell are kept with a bisection, and which never."""

from precision_bisect.runner.workspace.inherited import (
    changed_since,
    inherited_variables,
    reaching_cases,
)
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


def test_what_may_change_a_result_is_kept_and_no_secret() -> None:
    kept = inherited_variables(SHELL)
    assert list(kept.values) == [
        "CXXFLAGS", "LC_ALL", "LD_LIBRARY_PATH", "MALLOC_PERTURB_", "OMP_NUM_THREADS", "PYTHONPATH",
    ]  # fmt: skip
    assert kept.hidden == ("AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HF_TOKEN", "api_key", "http_proxy")
    document = kept.model_dump_json()
    assert not any(secret in document for secret in ("hf_1", '"aws"', "mine", '"k"'))


def test_what_a_stack_sets_or_watches_or_takes_away_is_not_the_shell_s(small: SmallStack) -> None:
    small.environment = {"matters": ["CXXFLAGS"], "variables": {"OMP_NUM_THREADS": "1", "PY": "{python}"}}
    assert list(reaching_cases(small.stack(), SHELL).values) == [
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "MALLOC_PERTURB_",
    ]
    small.environment = {}
    assert "PYTHONPATH" in reaching_cases(small.stack(), SHELL).values


def test_what_nothing_is_known_to_read_is_set_apart_and_its_changes_are_told() -> None:
    shell = {"MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "4", "DEPTH": "3", "WIFI": "on", "HF_TOKEN": "x"}
    read = inherited_variables(shell).read_by({"DEPTH", "HF_TOKEN"})
    assert read.values == {"DEPTH": "3", "MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "4"}
    assert (read.unread, read.hidden) == ({"WIFI": "on"}, ("HF_TOKEN",))
    assert list(changed_since(read, inherited_variables(shell))) == []
    assert list(changed_since(read, inherited_variables({**shell, "WIFI": "off"}))) == ["WIFI was on, is off"]


def test_changes_are_phrases_without_secrets() -> None:
    before = inherited_variables({"A": "1", "B": "2", "MY_TOKEN": "x"})
    now = inherited_variables({"B": "3", "C": "4"})
    assert list(changed_since(before, before)) == []
    assert list(changed_since(before, now)) == [
        "A was 1, is not set",
        "B was 2, is 3",
        "C is 4, was not set",
        "MY_TOKEN was set (not shown), is not set",
    ]
