"""Commands that write files: where a name could lead elsewhere or be read as more, nothing is written."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.security.hostile_names import NAMES
from tests.security.test_generated_code import quoted
from tests.support.command import verbworker
from tests.support.distributions import ROOT
from verbs import registry
from verbworker.errors import Refused
from verbworker.model.weave import weave
from verbworker.profile.verify.scaffold import scaffold

pytestmark = pytest.mark.attack("generated code")

PLACES = {name: text for name, text in NAMES.items() if name not in ("much", "a keyword")}
MORE = {
    "a folder above": "..",
    "this folder": ".",
    "a slash": "a/b",
    "a backslash": "a\\b",
    "a dot": "a.b",
    "a capital": "Parcel",
    "a null": "a\0b",
    "nothing": "",
    "an underscore": "a_b",
    "a module of ours": "verbworker",
    "the tests": "tests",
    "a word of Python": "class",
    "a long one": "a" * 41,
    "a hyphen first": "-a",
    "a line at the end": "parcel\n",
    "digits of another script": "parcel\u0661",
}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", [*PLACES.values(), *MORE.values()], ids=[*PLACES, *MORE])
def test_a_process_is_not_written_under_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    project = tmp_path / "a" / "b"
    project.mkdir(parents=True)

    with pytest.raises(Refused):
        scaffold(project, name)

    assert files(tmp_path) == ["a", "a/b"]


COMMANDS = ["a path", "an absolute path", "a command", "an option", "three quotes", "right to left", "a C1 control"]


@pytest.mark.parametrize("command", ["scaffold", "init"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_refuses_it_in_one_sentence(tmp_path: Path, command: str, name: str) -> None:
    project = tmp_path / "a" / "b"
    project.mkdir(parents=True)
    words = ["scaffold", "--", NAMES[name]] if command == "scaffold" else ["init", "--name", NAMES[name]]
    said = verbworker(*words, directory=project)

    assert said.code in (1, 2), said
    assert "Traceback" not in said.out + said.err
    assert all(sign == "\n" or sign.isprintable() for sign in said.out + said.err)
    assert files(tmp_path) == ["a", "a/b"]


@pytest.mark.parametrize("place", ["processes/parcel", "verbs/parcel", "tests/test_parcel.py", "processes"])
@pytest.mark.parametrize("kind", ["file", "link to nothing", "link elsewhere"])
def test_what_is_there_is_not_written_over_nor_through(tmp_path: Path, place: str, kind: str) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / place).parent.mkdir(parents=True)
    elsewhere.mkdir()
    target = elsewhere / "kept"
    if kind == "file":
        (project / place).write_text("mine")
    elif kind == "link to nothing":
        (project / place).symlink_to(target)
    elif place.endswith(".py"):
        target.write_text("mine")
        (project / place).symlink_to(target)
    else:
        (project / place).symlink_to(elsewhere)
        (elsewhere / "process.bpmn").write_text("mine")
    before = {name: os.path.islink(tmp_path / name) for name in files(tmp_path)}
    said = verbworker("scaffold", "parcel", directory=project)

    assert "Traceback" not in said.out + said.err
    assert (project / place).is_symlink() == (kind != "file")
    # A folder that its owner linked is one of the project's; what is there already is not touched.
    assert [path.read_text() for name in ("kept", "process.bpmn") if (path := elsewhere / name).exists()] in (
        [],
        ["mine"],
    )
    if said.code != 0:
        assert {name: os.path.islink(tmp_path / name) for name in files(tmp_path)} == before


MODEL = (ROOT / "processes/kyc-open-case/process.bpmn").read_bytes()
BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_woven_model_has_the_names_of_the_authored_one_and_no_element_more_but_ours(name: str) -> None:
    root = ElementTree.fromstring(MODEL)
    text = quoted(name).encode()
    content = MODEL
    for element in root.iter():
        if element.tag.startswith(BPMN) and element.get("name") and element.tag.removeprefix(BPMN) in NAMED:
            old = f'name="{element.get("name")}"'.encode()
            content = content.replace(old, b"name=" + text)
    assert content != MODEL
    woven = ElementTree.fromstring(weave(content, registry).content)
    plain = ElementTree.fromstring(weave(MODEL, registry).content)

    assert [element.tag for element in woven.iter()] == [element.tag for element in plain.iter()]
    assert [element.get("id") for element in woven.iter()] == [element.get("id") for element in plain.iter()]
    assert name in {element.get("name") for element in woven.iter()}


NAMED = {"userTask", "serviceTask", "exclusiveGateway", "startEvent", "endEvent", "sequenceFlow", "process"}


@pytest.mark.parametrize("name", ["three quotes", "a script", "a line separator", "right to left", "a formula"])
def test_a_report_of_the_command_holds_it_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    model = tmp_path / "model.bpmn"
    text = quoted(NAMES[name])
    model.write_text(
        '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="x">'
        f'<process id="p" isExecutable="true"><startEvent id="s" name={text} foo="1"/></process></definitions>'
    )
    said = verbworker("lint", "--format", "json", str(model), directory=tmp_path)
    found = json.loads(said.out)

    assert {one["element"]["name"] for one in found["findings"] if one["element"]["id"] == "s"} == {NAMES[name]}
    assert said.out.isascii()
    assert files(tmp_path) == ["model.bpmn"]
