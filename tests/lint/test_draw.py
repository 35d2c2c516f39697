"""Pictures of models: everything is drawn once, at its place, safely, and always the same."""

import os
import subprocess
import sys
from pathlib import Path
from re import DOTALL, findall, sub
from xml.etree.ElementTree import Element

import pytest

import verblint
from tests.support.drawn_models import GATEWAYS, HEAD, SYMBOLS, TASKS, edge, gallery, shape
from tests.support.fixture_models import fixture_models
from tests.support.model_source import ModelSource
from tests.support.picture_checks import SVG, check_picture, drawn_ids, parse
from verblint import ModelError
from verblint.draw import STATES, STYLESHEET, Picture, draw
from verblint.draw.geometry import Box, Spot

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("VERBLINT_FUZZ_SEED", "20261118"))


def without_diagram(content: bytes) -> bytes:
    return sub(rb"<(\w+:)?BPMNDiagram.*</(\w+:)?BPMNDiagram>", b"", content, flags=DOTALL)


def one(picture: Picture, id: str) -> Element:
    groups = [group for group in parse(picture).iter(f"{SVG}g") if group.get("data-element-id") == id]
    assert len(groups) == 1
    return groups[0]


def classes(picture: Picture, id: str) -> set[str]:
    return set((one(picture, id).get("class") or "").split())


def kebab(kind: str) -> str:
    return sub("([A-Z])", r"-\1", kind).lower()


def texts(group: Element) -> list[str]:
    return [part.text or "" for part in group.iter() if part.tag in (f"{SVG}text", f"{SVG}tspan") and part.text]


def test_all_fixtures_are_drawn() -> None:
    drawn = refused = 0
    for model in fixture_models("rules") + fixture_models("traps"):
        for content in {model.content, without_diagram(model.content)}:
            try:
                picture = draw(content)
            except ModelError:
                refused += 1
                continue
            check_picture(content, picture)
            drawn += 1

    assert drawn > 600
    assert refused < 20


@pytest.mark.parametrize("path", sorted(ROOT.glob("processes/*/*.bpmn")) + sorted(ROOT.glob("docs/**/*.bpmn")), ids=str)
def test_our_own_models_are_drawn_with_and_without_their_diagrams(path: Path) -> None:
    content = path.read_bytes()

    picture, made = draw(content), draw(without_diagram(content))

    assert (picture.is_made_up, made.is_made_up) == (False, True)
    assert set(picture.shapes) == set(made.shapes)
    assert set(picture.edges) == set(made.edges)
    check_picture(content, picture)
    check_picture(without_diagram(content), made)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [pytest.param(40, id="some"), pytest.param(2_000, id="all")])
def test_generated_models_are_drawn(count: int) -> None:
    for number, content in enumerate(ModelSource(SEED).sized(count)):
        check_picture(content, draw(content))
        if number % 4 == 0:
            bare = without_diagram(content)
            check_picture(bare, draw(bare))


def test_every_kind_has_its_classes() -> None:
    picture = draw(gallery())
    check_picture(gallery(), picture)

    found = {group.get("class") for group in parse(picture).iter(f"{SVG}g")}
    assert {f"activity {kebab(kind)}" for kind in TASKS} <= found
    assert {f"gateway {kebab(kind)}" for kind in GATEWAYS} <= found
    assert {"event start-event", "event end-event", "event boundary-event intermediate dashed"} <= found
    assert {
        "activity call-activity thick",
        "activity sub-process event-scope scope",
        "activity transaction scope",
    } <= found
    assert {"data-object-reference data", "data-store-reference data", "text-annotation", "group"} <= found
    assert {"choreography-task unknown", "edge sequence-flow conditional", "edge association"} <= found
    assert len(drawn_ids(parse(picture))) > sum(map(len, SYMBOLS.values())) + len(TASKS) + len(GATEWAYS)


def test_an_unknown_element_is_a_box_with_its_name() -> None:
    content = f'{HEAD}<process id="p"><teleport id="t" name="Beam up"/><Été id="u"/></process></definitions>'
    picture = draw(content.encode())

    assert classes(picture, "t") == {"teleport", "unknown"}
    assert classes(picture, "u") == {"unknown"}
    assert texts(one(picture, "t")) == ["Beam up"]
    assert texts(one(picture, "u")) == ["u"]


def test_the_picture_has_a_title_and_a_text_alternative() -> None:
    picture = draw((ROOT / "processes/document-collect/process.bpmn").read_bytes())
    root = parse(picture)

    assert (root[0].tag, root[0].text) == (f"{SVG}title", "Collect documents")
    assert root[1].text == picture.description
    assert "Remind the client: service task, leads to Asked." in picture.description
    assert (
        "Was the client asked?: exclusive gateway, leads to Remind the client (yes), Asked (no)." in picture.description
    )
    assert root.get("role") == "img"


def test_an_empty_model_is_an_empty_picture() -> None:
    picture = draw(f"{HEAD}</definitions>".encode())

    assert picture.title == "An empty model"
    assert picture.description == "A BPMN diagram with 0 elements."
    assert (picture.shapes, picture.edges) == ({}, {})


def test_the_text_alternative_is_cut_after_many_elements() -> None:
    nodes = "".join(f'<task id="t{number}"/>' for number in range(203))
    picture = draw(f'{HEAD}<process id="p">{nodes}</process></definitions>'.encode())

    assert picture.description.endswith("t199: task. 3 more elements.")


FLOW = (
    f'{HEAD}<process id="p" name="Flow"><startEvent id="s"/><task id="a" name="Work"/>'
    '<sequenceFlow id="f" sourceRef="s" targetRef="a"/></process></definitions>'
).encode()


def test_states_are_classes_and_signs() -> None:
    picture = draw(FLOW, marks={"a": {"incident", "heat-3"}, "s": ["taken"], "f": ("taken",), "gone": {"active"}})

    assert classes(picture, "a") == {"activity", "task", "is-incident", "is-heat-3"}
    assert classes(picture, "f") >= {"is-taken"}
    assert texts(one(picture, "a")) == ["Work", "!"]
    assert one(picture, "a")[0].text == "Work (task)\nheat-3, incident"
    for state in STATES:
        assert f".is-{state}" in STYLESHEET


def test_a_state_without_a_letter_is_a_dot() -> None:
    group = one(draw(FLOW, marks={"a": {"active"}}), "a")

    assert [part.get("class") for part in group.iter(f"{SVG}circle")] == ["badge"]
    assert texts(group) == ["Work"]


def test_notes_are_in_the_title() -> None:
    picture = draw(FLOW, notes={"a": "3 days < 4 & \x00"})

    assert one(picture, "a")[0].text == "Work (task)\n3 days < 4 & �"


@pytest.mark.parametrize(
    ("options", "words"),
    [({"marks": {"a": {"evil onload"}}}, "no such state: evil onload"), ({"theme": "pink"}, "no such theme: pink")],
)
def test_an_unknown_state_or_theme_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw(FLOW, **options)  # type: ignore[arg-type]  # what is wrong is the point


def test_a_page_can_bring_the_stylesheet_and_let_elements_have_the_focus() -> None:
    picture = draw(FLOW, has_style=False, is_focusable=True, theme="dark")
    root = parse(picture)

    assert "<style>" not in picture.svg
    assert (root.get("role"), root.get("data-theme")) == ("graphics-document", "dark")
    assert [group.get("data-element-id") for group in root.iter() if group.get("tabindex") == "0"] == ["s", "a"]


def test_the_stylesheet_has_a_plain_colour_before_each_custom_property() -> None:
    uses = findall(r"([a-z-]+):var\((--[a-z-]+)\)", STYLESHEET)

    assert len(uses) > 10
    assert findall(r"[{;]([a-z-]+):#[0-9a-f]{6};\1:var\(", STYLESHEET) == [name for name, _ in uses]
    assert "url" not in STYLESHEET


def test_a_model_that_was_read_before_is_drawn_too() -> None:
    root = verblint.read(FLOW)

    assert draw(root).svg == draw(FLOW).svg == draw(root).svg


def test_a_file_that_is_no_model_is_refused_by_the_reader() -> None:
    with pytest.raises(ModelError):
        draw(b"<a")


def test_the_same_model_is_the_same_picture_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "with.bpmn").write_bytes(gallery())
    (tmp_path / "made.bpmn").write_bytes(without_diagram(ModelSource(SEED).model(60)))
    program = (
        "import sys, hashlib; from pathlib import Path; from verblint.draw import draw\n"
        "print(*[hashlib.sha256(draw(Path(p).read_bytes()).svg.encode()).hexdigest() for p in sys.argv[1:]])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "with.bpmn"), str(tmp_path / "made.bpmn")],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(verblint.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }

    assert len(seen) == 1


def test_shapes_and_lines_are_told_to_callers() -> None:
    content = FLOW.replace(
        b"</definitions>",
        b'<bpmndi:BPMNDiagram><bpmndi:BPMNPlane bpmnElement="p">'
        + (shape("s", 10, 20, 36, 36) + shape("a", 100, 0, 100, 80) + edge("f", ((46, 38), (100, 38)))).encode()
        + b"</bpmndi:BPMNPlane></bpmndi:BPMNDiagram></definitions>",
    )
    picture = draw(content)

    assert picture.shapes == {"s": Box(10, 20, 36, 36), "a": Box(100, 0, 100, 80)}
    assert picture.edges == {"f": (Spot(46, 38), Spot(100, 38))}
    assert picture.view == Box(-10, -20, 230, 120)


def test_labels_are_above_their_elements() -> None:
    picture = draw(FLOW, labels={"a": " 12 <b>\n" + "x" * 90, "s": "3", "f": "no figure", "gone": "1"})
    wide, round_one = one(picture, "a"), one(picture, "s")
    pills = [part for part in wide.iter(f"{SVG}rect") if part.get("class") == "pill"]

    assert texts(wide)[1].startswith("12 <b> xxx")
    assert len(texts(wide)[1]) < 30
    assert float(pills[0].get("y") or 0) < picture.shapes["a"].y
    assert texts(round_one) == ["3"]
    assert "no figure" not in picture.svg


def test_the_focus_can_be_limited_to_some_elements() -> None:
    picture = draw(FLOW, is_focusable={"a", "gone"})
    root = parse(picture)

    assert root.get("role") == "graphics-document"
    assert [group.get("data-element-id") for group in root.iter() if group.get("tabindex") == "0"] == ["a"]
