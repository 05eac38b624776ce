"""Stack files: what is wrong in one is said by file, key and expectation, before anything runs."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.settings import (
    TomlError,
    load_stack,
    named_stacks,
    parse_stack,
    parse_toml,
    stack_of_checkout,
)
from precision_bisect.runner.stack import Stack, escape_braces, fill

SOUND = """
name = "small"
searched = "tool"

[repositories.tool]
path = "tool"
[repositories.rt]
path = "tool/rt"
[repositories.cases]
path = "~/cases"

[pins.rt]
kind = "gitlink"
holder = "tool"
path = "rt"
target = "rt"
[pins.version]
kind = "version-file"
holder = "tool"
path = "versions.env"
key = "VERSION"

[steps.rt]
command = ["make", "-C", "{rt}", "-j{jobs}"]
inputs = ["rt", "tool:Makefile"]
outputs = ["tool/rt/build"]

[case]
repository = "cases"
command = ["{python}", "{case}", "-p", "{platform}"]
cwd = "{slot}"
build_output = "build_output"

[platforms.sim]
"""


def test_a_sound_file() -> None:
    stack = parse_stack(SOUND, where="x")
    assert str(stack.directory("rt")) == "tool/rt"
    assert str(stack.directory("tool")) == "tool"
    assert stack.needs_python
    loaded = parse_stack(SOUND.replace("[case]", '[case]\npreload = ["torch.nn", "numpy"]'), where="x")
    assert loaded.case.preload == ("torch.nn", "numpy")
    assert Stack.model_validate(stack.model_dump(mode="json")) == stack


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "small"', 'name = "../small"', "name: expected a plain name"),
        ('name = "small"', 'name = ["small"]', "name: expected a text"),
        ("[steps.rt]", '[steps."../rt"]', "steps: expected a plain name"),
        ("[steps.rt]", "[step.rt]", "step: unknown key"),
        (
            'searched = "tool"',
            'searched = "tol"',
            "searched: expected one of the repositories cases, rt, tool, found 'tol': did you mean tool?",
        ),
        ('inputs = ["rt", ', 'inputs = ["rtx:y", ', "steps.rt.inputs"),
        ('inputs = ["rt", "tool:Makefile"]', "inputs = []", "steps.rt.inputs"),
        ('"tool:Makefile"', '"tool:../cases"', "steps.rt.inputs.1: expected a path"),
        (
            '"tool:Makefile"',
            '"tool:rt/src"',
            "steps.rt.inputs: expected a path of rt, which is a repository of its own, found 'tool:rt/src'",
        ),
        (
            'cwd = "{slot}"',
            'cwd = "{slot}"\nhelp_inputs = ["case"]',
            "case.help_inputs: expected one of the rep",
        ),
        (
            'cwd = "{slot}"',
            'cwd = "{slot}"\npreload = "torch"',
            "case.preload: expected a list, found 'torch'",
        ),
        (
            'cwd = "{slot}"',
            'cwd = "{slot}"\npreload = ["numpy", 3]',
            "case.preload.1: expected a text, found 3",
        ),
        (
            'cwd = "{slot}"',
            'cwd = "{slot}"\npreload = ["torch; x"]',
            "case.preload.0: expected a text of the form",
        ),
        (
            'cwd = "{slot}"',
            'cwd = "{slot}"\npreload = ["../torch"]',
            "case.preload.0: expected a text of the form",
        ),
        (
            'command = ["{python}", "{case}", ',
            'preload = ["torch"]\ncommand = ["nice", "{case}", ',
            "case.preload: expected a case.command that begins",
        ),
        ("{jobs}", "{job}", "found {job}: did you mean jobs?"),
        ('"{platform}"', '"{golden}"', "{golden}"),
        ('"{case}", ', '"--file={case}", ', "expected the word {case}"),
        ('"tool/rt/build"', '"/tmp/build"', "steps.rt.outputs.0: expected a path inside the slot"),
        ('"tool/rt/build"', '"tool/../../x"', "inside the slot"),
        ('"tool/rt/build"', '"."', "inside the slot"),
        ('"tool/rt/build"', '"{rt}/build"', "placeholders"),
        ('"tool/rt/build"', '"tool/rt"', "holds tool/rt"),
        ('"tool/rt/build"', '"tool/"', "holds tool"),
        ('"tool/rt/build"', '"venv"', "holds venv"),
        ('build_output = "build_output"', 'build_output = "cases/.."', "case.build_output: expected a path"),
        ('build_output = "build_output"', 'build_output = "/home"', "case.build_output: expected a path"),
        (
            'build_output = "build_output"',
            'build_output = "cases"',
            "case.build_output: expected a path that",
        ),
        (
            'build_output = "build_output"',
            'compiled = ["cases"]',
            "case.compiled: expected a path that",
        ),
        ('path = "rt"\n', 'path = "../rt"\n', "pins.rt.gitlink.path: expected a path"),
        (
            'kind = "gitlink"',
            'kind = "gitlnk"',
            "pins.rt: expected 'kind' to be one of 'gitlink', 'comm",
        ),
        ('target = "rt"', 'target = "tool"', "'tool' inside of itself"),
        (
            "[pins.version]",
            '[pins.again]\nkind="gitlink"\nholder="cases"\npath="x"\ntarget="rt"\n[pins.version]',
            "one pin of each target",
        ),
        (
            "[pins.version]",
            '[pins.b]\nkind="gitlink"\nholder="rt"\npath="x"\ntarget="tool"\n[pins.version]',
            "inside of itself",
        ),
        (
            "[repositories.tool]",
            "[repositories.x]\n[repositories.tool]",
            "repositories.x: expected path, where the checkout is, or releases",
        ),
        (
            "[repositories.tool]",
            '[repositories.x]\npath="x"\nreleases={versions=["v1"]}\n[repositories.tool]',
            "repositories.x: expected path, where the checkout is, or releases, found both",
        ),
        (
            "[repositories.tool]",
            '[repositories.x]\nreleases={versions=["v1"], folder="x"}\n[repositories.tool]',
            "repositories.x.releases: expected one of versions, folder and command, or tags, found versions and folder",
        ),
        (
            "[repositories.tool]",
            '[repositories.x]\nreleases={tags="nothing"}\n[repositories.tool]',
            "repositories.x.releases.tags: expected one of the repositories",
        ),
        (
            "[pins.version]",
            '[pins.again]\nkind="version-file"\nholder="cases"\npath="x"\nkey="X"\ntarget="tool"\n[pins.version]',
            "pins.again.target: expected a repository with releases, found 'tool'",
        ),
        (
            "[repositories.tool]",
            '[repositories.python]\npath="x"\n[repositories.tool]',
            "repositories.python: expected a name other",
        ),
        ("[repositories.tool]", '[repositories.venv]\npath="x"\n[repositories.tool]', "repositories.venv"),
        ("[platforms.sim]", "[limits]\nrun_timeout = 0\n[platforms.sim]", "limits.run_timeout"),
        (
            "[platforms.sim]",
            "[limits]\nbuild_cache_gib = inf\n[platforms.sim]",
            "limits.build_cache_gib: expected a finite number, found inf",
        ),
        ("inputs", "timeout = inf\ninputs", "steps.rt.timeout: expected a finite number, found inf"),
        ("[platforms.sim]", "", "platforms: this key is required"),
        ("[platforms.sim]", '[platforms.sim]\nboard = "perhaps"', "platforms.sim.board"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, says: str) -> None:
    assert old in SOUND
    with pytest.raises(UsageError) as raised:
        parse_stack(SOUND.replace(old, new, 1), where="here.toml")
    message = str(raised.value)
    assert message.startswith("here.toml: ")
    assert "\n" not in message
    assert says in message


def test_a_cycle_that_does_not_hold_the_first_pin() -> None:
    text = SOUND.replace(
        "[pins.version]",
        '[pins.b]\nkind="gitlink"\nholder="cases"\npath="x"\ntarget="tool"\n'
        '[pins.c]\nkind="gitlink"\nholder="tool"\npath="y"\ntarget="cases"\n[pins.version]',
    )
    with pytest.raises(UsageError, match="inside of itself"):
        parse_stack(text, where="x")


def test_a_type_that_no_one_can_read(tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    for content in (b"\xff\xfe", b"name = ["):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=re.escape(str(file))):
            load_stack(str(file))
    with pytest.raises(UsageError, match="readable"):
        load_stack(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="one of"):
        load_stack("../configs/demo")
    with pytest.raises(UsageError, match=r"--stack pyto: no such stack: did you mean pypto\?"):
        load_stack("pyto")
    with pytest.raises(UsageError, match=r"bisect-precision demo DIR, then name --stack DIR/stack.toml"):
        load_stack("demo")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UsageError, match=f"--stack {folder}: expected a stack file, found a folder$"):
        load_stack(str(folder))
    (folder / "mine.toml").touch()
    with pytest.raises(UsageError, match=f"found a folder; name the file in it: --stack {folder}/mine.toml"):
        load_stack(str(folder))


def test_a_file_that_extends_a_stack_says_what_is_other(tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    file.write_text(
        'extends = "pypto"\nname = "mine"\n[repositories.pypto]\npath = "here"\n[environment.variables]\nMINE = "1"\n'
    )
    base, stack = load_stack("pypto"), load_stack(str(file))
    assert (stack.name, stack.searched, stack.steps) == ("mine", base.searched, base.steps)
    assert stack.repositories["pypto"].path == tmp_path / "here"
    assert stack.repositories["pypto"].ignore == base.repositories["pypto"].ignore
    assert stack.environment.variables == {**base.environment.variables, "MINE": "1"}
    file.write_text('extends = "pyto"\n')
    with pytest.raises(UsageError, match=r"stack.toml: extends: expected one of .*pypto, .*, found 'pyto'"):
        load_stack(str(file))


def test_a_stack_may_extend_one_that_extends_another(tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    file.write_text('extends = "pypto-ptoas"\nname = "mine"\n')
    base, stack = load_stack("pypto-ptoas"), load_stack(str(file))
    assert (stack.name, stack.searched, stack.steps.keys()) == ("mine", base.searched, base.steps.keys())


def test_a_key_has_few_parts_wherever_dots_are() -> None:
    """Strings, comments and numbers may have as many as they like."""
    dots = 1500 * "."
    numbers = 1500 * "1.5, "
    parsed = parse_toml(f"a = \"{dots}\\\"{dots}\"  # {dots}\nb = [{numbers}]\nc = '''\n{dots}'''")
    assert (parsed["a"], parsed["c"]) == (f'{dots}"{dots}', dots)
    long = 1500 * ' . "\u2028"'
    for text, line in (
        (f"a{long} = 1", 1),
        (f"[a{long}]", 1),
        (f"x = '''\n\n'''\na = {{b{long} = 1}}", 4),
        (f'x = """\n\\""""\na{long} = 1', 3),
    ):
        with pytest.raises(
            TomlError, match=f"^line {line}: expected at most 1,000 dots in a key, found 1,500$"
        ):
            parse_toml(text)


def test_a_nul_is_told_with_its_place() -> None:
    for text, place in (
        (r'"\u0000" = 1', "a key"),
        (r'a = {"\u0000" = 1}', "a"),
        (r'a.b = ["\u0000"]', "a.b"),
    ):
        with pytest.raises(TomlError, match=f"^{place}: expected a text without NUL$"):
            parse_toml(text)


def test_paths_count_from_the_stack_file_and_can_be_overridden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stack.toml").write_text(SOUND)
    monkeypatch.setenv("HOME", "/home/somebody")
    stack = load_stack(str(tmp_path / "stack.toml"), overrides={"rt": Path("/elsewhere/rt")})
    assert {name: str(repository.path) for name, repository in stack.repositories.items()} == {
        "tool": str(tmp_path / "tool"),
        "rt": "/elsewhere/rt",
        "cases": "/home/somebody/cases",
    }
    with pytest.raises(UsageError, match="nothing"):
        load_stack(str(tmp_path / "stack.toml"), overrides={"nothing": Path("/x")})


def test_every_named_stack_is_sound() -> None:
    for name in named_stacks():
        load_stack(name)


@pytest.mark.parametrize("name", ["simpler", "pypto", "pypto-ptoas"])
def test_builds_of_the_real_stacks_are_as_cheap_as_the_machine_allows(name: str) -> None:
    stack = load_stack(name)
    assert stack.steps["runtimes"].is_for_one_platform
    cache = stack.environment.tools["ccache"]
    assert cache.keeps_objects
    assert not cache.required
    assert "apt-get install ccache" in cache.hint
    assert cache.variables["CMAKE_CXX_COMPILER_LAUNCHER"] == "ccache"
    assert all(platform.undisturbed == platform.board for platform in stack.platforms.values())


def test_a_checkout_of_no_known_stack(tmp_path: Path) -> None:
    assert stack_of_checkout(tmp_path) is None


@given(st.text())
def test_a_text_with_escaped_braces_fills_to_itself(text: str) -> None:
    assert fill(escape_braces(text), {}) == text


def test_variables_of_the_case_are_set_to_the_very_text() -> None:
    stack = parse_stack(SOUND, where="x").add_case_variables({"MODE": "{x}", "EMPTY": ""})
    assert {name: fill(text, {}) for name, text in stack.case.variables.items()} == {
        "MODE": "{x}",
        "EMPTY": "",
    }
    assert stack.add_case_variables({"MODE": "y"}).case.variables == {"MODE": "y", "EMPTY": ""}
