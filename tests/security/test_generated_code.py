"""Names of models and contracts in what is generated from them: there they are text, whatever they say elsewhere."""

import ast
import builtins
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import pytest

from docs.generate import markdown
from tests.security.hostile_names import NAMES
from tests.support.strange_names import POLICY, compiled, workflow
from verblint.bpmn.reader import Limits
from verblint.contracts.contract import Gate
from verblint.draw import draw
from verblint.formats import concise, full, github, gitlab, junit, sarif
from verblint.formats import json as json_format
from verblint.linter import lint
from verblint.report import Problem, Report
from verblint.settings import Project, Settings
from verblint.startup.value import replace
from verbworker.api.server import describe
from verbworker.contract.registry import Registry
from verbworker.contract.text import escape_hidden
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model.element_templates import format_file, templates
from verbworker.profile.verify.generate import generate_module, module_name

pytestmark = pytest.mark.attack("generated code")

SPACES = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
    ' xmlns:di="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"'
)


def quoted(name: str) -> str:
    """Return a name as an attribute that has it to the letter."""
    return quoteattr(name, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;", "\x85": "&#133;", "\u2028": "&#8232;"})


# ---- Python ---------------------------------------------------------------------------------------------------------

CALLS = re.compile(
    r"Message|call\.(?:message|decision)|get_args|PermanentContract|dataclass|\w+Decision|''\.join|\"\"\.join"
)
PARTS = ("messages", "decisions", "flags", "gates", "jobs", "keys", "policies", "definition")


def made(name: str, part: str) -> str:
    """Return the module of a process that has the name in one place."""
    given = {
        "messages": {"messages": {name: "kyc/${state.case}"}},
        "decisions": {"gates": {"review": ["approve", name]}},
        "flags": {"flags": {"orch_outcome": ["pending", name]}},
        "gates": {"gates": {name: ["approve"]}},
        "jobs": {"jobs": [name]},
        "keys": {"messages": {"kyc.arrived": f"{name}/${{state.case}}"}},
        "policies": {"policies": {name: {**POLICY, "retry": {"non_retryable_error_types": [name]}}}},
        "definition": {"definition_id": name},
    }
    return generate_module(compiled(**given[part]), workflow())  # type: ignore[arg-type]  # one of many parameters


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_module_holds_a_name_and_does_nothing(
    name: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = made(name, part)
    tree = ast.parse(text)

    assert text.splitlines() == text.split("\n")[:-1]  # no other sign ends a line, for any reader
    assert all(sign == "\n" or sign.isprintable() for sign in text)
    assert {type(node) for node in tree.body} <= {
        *(ast.Expr, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.ClassDef, ast.FunctionDef)
    }
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not [call for call in calls if not CALLS.fullmatch(call)]
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules <= {"typing", "dataclasses", "datetime", "collections.abc", "verbworker"}
    assert name in "".join(texts_of(tree)) or "${" in name  # which is a place in a key
    assert run(text)
    assert list(tmp_path.iterdir()) == []


def texts_of(tree: ast.Module) -> list[str]:
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def run(text: str) -> bool:
    """Import the module as a program would, and have nothing of it reach the builtins."""
    before = set(vars(builtins))
    module = ModuleType("generated_by_attack")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, "generated_by_attack.py", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return set(vars(builtins)) == before


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_file_of_a_module_stays_in_its_folder(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]*_gen\.py", module_name(name))


# ---- element templates ----------------------------------------------------------------------------------------------


def registry(name: str) -> Registry:
    """Return a registry whose message, gate and decision have the name."""
    found = Registry()
    found.declare(
        WorkflowVerb(
            name="kyc.open-case",
            version=1,
            process="kyc",
            schema="kyc/v1",
            correlation={"corr_docs": "${args.case}"},
            messages={name: "corr_docs"},
            gates={name: Gate(name, "Review", ("approve", name), name)},
        )
    )
    return found


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_element_templates_hold_a_name_as_a_value(name: str) -> None:
    text = format_file(templates(registry(name)))
    found = json.loads(text.encode())
    values = [part["value"] for one in found for part in one["properties"] if part["binding"].get("name") == "name"]
    keys = [part["value"] for one in found for part in one["properties"] if "subscription" in part["binding"]["type"]]

    assert name in values
    assert set(keys) == {"=corr_docs"}  # an expression of ours, which no name can continue
    for one in found:
        assert {"name", "id", "description", "properties"} <= set(one)
        if one["id"].startswith("verbworker.wait."):
            assert not re.search(r"[\s/\\<>\"'`$]", one["id"])


# ---- pictures -------------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "polygon", "polyline", "line", "text", "tspan"}
ATTRIBUTES = re.compile(
    r"class|role|viewBox|width|height|x|y|rx|ry|cx|cy|r|d|points|transform|data-[a-z-]+|aria-[a-z]+|tabindex|id"
)


def picture(name: str, *, with_places: bool) -> str:
    text = quoted(name)
    plane = (
        '<di:BPMNDiagram><di:BPMNPlane bpmnElement="p">'
        '<di:BPMNShape bpmnElement="s"><dc:Bounds x="0" y="0" width="36" height="36"/></di:BPMNShape>'
        '<di:BPMNShape bpmnElement="t"><dc:Bounds x="90" y="0" width="100" height="80"/></di:BPMNShape>'
        f"<di:BPMNShape bpmnElement={text}>"
        '<dc:Bounds x="90" y="100" width="100" height="80"/></di:BPMNShape></di:BPMNPlane></di:BPMNDiagram>'
    )
    model = (
        f'<definitions {SPACES} targetNamespace="x"><process id="p" name={text} isExecutable="true">'
        f'<startEvent id="s" name={text}/><serviceTask id="t" name={text}/>'
        f'<sequenceFlow id="f" sourceRef="s" targetRef="t" name={text}/><userTask id={text} name={text}/>'
        f'<textAnnotation id="a"><text>{text[1:-1].replace("<", "&lt;")}</text></textAnnotation>'
        f"</process>{plane if with_places else ''}</definitions>"
    )
    return draw(model.encode(), marks={name: ["active"]}, notes={name: name, "t": name}).svg


@pytest.mark.parametrize("with_places", [True, False], ids=["placed", "laid out"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_picture_shows_a_name_and_nothing_else_of_it(name: str, with_places: bool) -> None:
    svg = picture(name, with_places=with_places)
    plain = ElementTree.fromstring(picture("plain", with_places=with_places).encode())
    root = ElementTree.fromstring(svg.encode())
    elements = list(root.iter())

    assert {element.tag.removeprefix(SVG) for element in elements} <= TAGS
    assert not [key for element in elements for key in element.attrib if not ATTRIBUTES.fullmatch(key)]
    styles = [element.text for element in elements if element.tag == f"{SVG}style"]
    assert styles == [element.text for element in plain.iter(f"{SVG}style")]
    assert "<?" not in svg
    assert "<!" not in svg
    shown = "".join(element.text or "" for element in elements)
    shown += "".join(value for element in elements for key, value in element.attrib.items() if key != "data-element-id")
    assert escape_hidden(shown) == shown


# ---- reports --------------------------------------------------------------------------------------------------------

FORMATS: dict[str, Callable[[Report], str]] = {
    "full": full.render,
    "concise": concise.render,
    "json": json_format.render,
    "sarif": sarif.render,
    "github": github.render,
    "gitlab": gitlab.render,
    "junit": junit.render,
}


def report(name: str) -> Report:
    """Return what the linter finds in a model of such names, in a file of that name."""
    text = quoted(name)
    model = (
        f'<definitions {SPACES} targetNamespace="x"><process id={text} name={text} isExecutable="true">'
        f'<endEvent id={text} name={text} foo={text}/><serviceTask id="t" name={text}><extensionElements>'
        f"<zeebe:taskDefinition type={text}/></extensionElements></serviceTask></process></definitions>"
    )
    found = lint(model.encode(), project=Project(settings=Settings(limits=Limits())))
    assert found.findings
    findings = tuple(replace(one, file=f"{name}.bpmn") for one in found.findings)
    return replace(found, findings=findings, problems=(Problem(name, f"cannot be read: {name}"),))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_report_keeps_its_form(name: str, form: str) -> None:
    given = report(name)
    text = FORMATS[form](given)
    number = len(given.findings)

    if form in ("json", "sarif", "gitlab"):
        assert text.isascii()
        document = json.loads(text)
        rows = {"json": lambda: document["findings"], "gitlab": lambda: document[: -len(given.problems)]}
        assert len(rows.get(form, lambda: document["runs"][0]["results"])()) == number
        return
    assert all(sign == "\n" or sign.isprintable() for sign in text)
    if form == "junit":
        assert len(list(ElementTree.fromstring(text.encode()).iter("failure"))) == number
    elif form == "github":
        lines = text.splitlines()
        assert len(lines) == number + len(given.problems)
        assert all(re.match(r"::(?:error|warning) [^:]*::", line) for line in lines)
    elif form == "concise":
        assert len(text.splitlines()) == number


# ---- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_page_keeps_its_form(name: str) -> None:
    rows = markdown.table(["name", "meaning"], [[name, name], ["x", "y"]]).rstrip("\n").splitlines()
    block = markdown.fence(name).rstrip("\n")
    opening = re.match(r"`+", block)
    assert opening is not None

    assert len(rows) == 4
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert block.splitlines()[-1] == opening[0]
    assert opening[0] not in name
    assert spans(markdown.code(name)) == 1
    assert re.fullmatch(r"[a-z0-9_-]*", markdown.anchor(name))


def spans(text: str) -> int:
    """Return how many spans of code a text is, which begins and ends with one; 0 if there is anything between."""
    opening = re.match(r"`+", text)
    if opening is None or not text.endswith(opening[0]):
        return 0
    inside = text[len(opening[0]) : -len(opening[0])]
    return 1 if opening[0] not in re.findall(r"`+", inside) else 0


def test_the_description_of_the_api_has_nothing_that_ends_a_comment_or_a_name_of_a_client() -> None:
    def texts(value: object) -> list[str]:
        if isinstance(value, dict):
            return [*map(str, value), *(text for one in value.values() for text in texts(one))]
        if isinstance(value, list):
            return [text for one in value for text in texts(one)]
        return [value] if isinstance(value, str) else []

    document = describe()
    operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    schemas = document["components"]["schemas"]
    fields = [name for schema in schemas.values() for name in schema.get("properties", {})]

    assert not [text for text in texts(document) if "*/" in text or "`${" in text]
    assert all(re.fullmatch(r"[a-z][a-z_]*", name) for name in operations)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in (*schemas, *fields))
