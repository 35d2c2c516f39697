"""Pictures of hostile and odd models: they are drawn, within bounds, in time that grows with the model."""

import sys
from collections.abc import Callable
from math import isfinite
from random import Random
from re import sub
from types import FrameType

import pytest

from tests.support.drawn_models import HEAD, edge, gallery, shape
from tests.support.fixture_models import fixture_models
from tests.support.mutation import damaged
from tests.support.picture_checks import SVG, check_picture, drawn_ids, parse
from verblint import ModelError
from verblint.draw import draw
from verblint.draw.interchange import FARTHEST

EVIL = (
    "</title></svg><script>alert(1)</script>\"' onload='x' ]]> &lt; \u202e\u0000 javascript:x url(x) href=x <!DOCTYPE"
)


def model(inside: str, diagram: str = "") -> bytes:
    plane = (
        f'<bpmndi:BPMNDiagram><bpmndi:BPMNPlane bpmnElement="p">{diagram}</bpmndi:BPMNPlane></bpmndi:BPMNDiagram>'
        if diagram
        else ""
    )
    return f'{HEAD}<process id="p" name="P">{inside}</process>{plane}</definitions>'.encode()


def flow(number: int, source: str, target: str) -> str:
    return f'<sequenceFlow id="f{number}" sourceRef="{source}" targetRef="{target}"/>'


def test_hostile_names_and_ids_stay_text() -> None:
    name = EVIL.replace("\0", "")
    quoted = name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace(">", "&gt;")
    kinds = ("task", "startEvent", "exclusiveGateway", "subProcess", "dataStoreReference", "group", "zap")
    parts = "".join(f'<{kind} id="{quoted}{number}" name="{quoted}"/>' for number, kind in enumerate(kinds))
    parts += f'<textAnnotation id="n"><text>{quoted}</text></textAnnotation>'
    parts += f'<sequenceFlow id="f" name="{quoted}" sourceRef="{quoted}0" targetRef="{quoted}1"/>'
    content = model(parts).replace(b'name="P"', f'name="{quoted}"'.encode())

    picture = draw(content, notes={f"{name}0": EVIL})

    root = parse(picture)
    assert {f"{name}{number}" for number in range(len(kinds))} <= set(drawn_ids(root))
    assert not [part for part in root.iter() if part.tag == f"{SVG}script"]


def test_names_of_any_length_and_script_keep_within_limits() -> None:
    names = (
        "x" * 200_000,
        "W" * 5_000,
        "word " * 40_000,
        "漢字" * 3_000,
        "שלום " * 500,
        "a\u0301" * 900,
        "\n" * 90,
        "🙂" * 999,
    )
    parts = "".join(
        f'<task id="t{number}" name="{name}"/><startEvent id="s{number}" name="{name}"/>'
        for number, name in enumerate(name.replace("\n", "&#10;") for name in names)
    )
    picture = draw(model(parts))

    assert len(picture.svg) < 80_000
    check_picture(model(parts), picture)
    for group in parse(picture).iter(f"{SVG}g"):
        assert len(list(group.iter(f"{SVG}tspan"))) <= 6


@pytest.mark.parametrize(
    "bounds",
    [
        ("NaN", 0, 10, 10),
        ("inf", 0, 10, 10),
        ("1e308", "1e308", "1e308", "1e308"),
        (0, "-1e308", 10, 10),
        (0, 0, -10, 10),
        (0, 0, 0, 10),
        (0, 0, 10, "-0"),
        ("", 0, 10, 10),
        ("ten", 0, 10, 10),
        (FARTHEST * 2, 0, 10, 10),
        (0, 0, 10, "1e9"),
    ],
)
def test_a_shape_without_a_sane_place_is_placed_by_us(bounds: tuple[object, ...]) -> None:
    places = shape("a", 0, 0, 100, 80) + shape("c", 0, 200, 100, 80) + shape("b", *bounds)
    picture = draw(model('<task id="a"/><task id="b"/><task id="c"/>' + flow(1, "a", "b"), places))

    assert not picture.is_made_up
    assert picture.shapes["b"].y > picture.shapes["c"].bottom
    assert all(isfinite(value) and abs(value) < 1_000 for value in picture.view)
    assert len(picture.edges["f1"]) >= 2


def test_tiny_and_huge_shapes_are_drawn() -> None:
    places = gallery().decode().split('bpmnElement="p">', 1)[1]
    for size in ("0.001", "99999"):
        content = gallery().decode().replace(places, _resize(places, size)).encode()
        picture = draw(content)
        check_picture(content, picture)
        assert all(isfinite(value) for value in picture.view)


def _resize(places: str, size: str) -> str:
    return sub(r'(width|height)="[^"]*"', rf'\1="{size}"', places)


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((50, 40),),
        (("NaN", "1"), ("1", "inf")),
        ((1, 1), (1, 1)),
        ((50, 40), (50, 40), (50, 40)),
        ((50, 40), (250, 40)),
        ((50, 40), (60, 40), (240, 40), (250, 40)),
        ((-9e4, -9e4), (9e4, 9e4)),
    ],
)
def test_waypoints_of_any_kind_are_drawn(points: tuple[tuple[object, object], ...]) -> None:
    places = shape("a", 0, 0, 100, 80) + shape("b", 200, 0, 100, 80) + edge("f1", points)
    inside = '<task id="a" default="f1"/><task id="b"/>' + flow(1, "a", "b")
    content = model(inside, places)

    picture = draw(content)

    check_picture(content, picture)
    assert len(picture.edges.get("f1", ((), ()))) >= 2


ODD = {
    "a boundary event at itself": '<boundaryEvent id="b" attachedToRef="b"/>',
    "a boundary event at nothing": '<boundaryEvent id="b" attachedToRef="x"/>' + flow(1, "b", "b"),
    "boundary events at each other": (
        '<boundaryEvent id="b" attachedToRef="c"/><boundaryEvent id="c" attachedToRef="b"/>' + flow(1, "b", "c")
    ),
    "flows to nowhere": '<task id="a"/>' + flow(1, "a", "x") + flow(2, "x", "a") + flow(3, "", ""),
    "a flow to itself": '<task id="a"/>' + flow(1, "a", "a") + flow(2, "a", "a"),
    "a circle without a start": "".join(f'<task id="t{n}"/>' + flow(n, f"t{n}", f"t{(n + 1) % 5}") for n in range(5)),
    "a flow into a subprocess": (
        '<task id="a"/><subProcess id="s"><task id="i"/></subProcess>' + flow(1, "a", "i") + flow(2, "i", "s")
    ),
    "notes about notes": (
        '<textAnnotation id="m"/><textAnnotation id="n"/><task id="a"/>'
        '<association id="x" sourceRef="m" targetRef="n"/>'
        '<association id="y" sourceRef="m" targetRef="a"/><association id="z" sourceRef="a" targetRef="m"/>'
    ),
    "no ids": "<task/><task/><startEvent/><sequenceFlow/><boundaryEvent/><textAnnotation/>",
    "one id": '<task id="a"/><startEvent id="a"/><boundaryEvent id="a" attachedToRef="a"/>' + flow(1, "a", "a"),
    "a lane for everything": (
        '<laneSet><lane id="l1"><flowNodeRef>a</flowNodeRef></lane><lane id="l2"><flowNodeRef>a</flowNodeRef></lane>'
        '</laneSet><task id="a"/><task id="b"/>' + flow(1, "a", "b")
    ),
    "empty lanes": '<laneSet><lane id="l"><childLaneSet/></lane></laneSet><laneSet/>',
    "deep subprocesses": '<subProcess id="s">' * 40 + '<task id="t"/>' + "</subProcess>" * 40,
}


@pytest.mark.parametrize("inside", ODD.values(), ids=ODD)
def test_odd_models_are_drawn(inside: str) -> None:
    for content in (
        model(inside),
        model(inside, shape("a", 0, 0, 10, 10) + shape("s", 0, 0, 9, 9) + shape("b", 1, 1, 9, 9)),
    ):
        check_picture(content, draw(content))


@pytest.mark.timeout(600)
def test_damaged_models_are_drawn_or_refused() -> None:
    random = Random(20261118)
    models = [*(model.content for model in fixture_models("rules")[::10]), gallery()]
    drawn = 0
    for _ in range(600):
        content = damaged(models, random)
        try:
            picture = draw(content)
        except ModelError:
            continue
        parse(picture)
        drawn += 1

    assert drawn > 150


def chain(count: int) -> str:
    return "".join(f'<task id="t{n}" name="Task {n}"/>' + flow(n, f"t{n}", f"t{n + 1}") for n in range(count))


def star(count: int) -> str:
    return '<exclusiveGateway id="g"/><exclusiveGateway id="j"/>' + "".join(
        f'<task id="t{n}"/>' + flow(2 * n, "g", f"t{n}") + flow(2 * n + 1, f"t{n}", "j") for n in range(count)
    )


def ladder(count: int) -> str:
    """Branches that all end at the same node, so that none of their rows can be shared."""
    return chain(count) + "".join(
        f'<task id="b{n}"/>' + flow(10**6 + n, f"t{n}", f"b{n}") + flow(10**7 + n, f"b{n}", f"t{count}")
        for n in range(count)
    )


def returns(count: int) -> str:
    return chain(count) + "".join(flow(10**6 + n, f"t{n}", "t0") for n in range(count))


def skips(count: int) -> str:
    return chain(count) + "".join(flow(10**6 + n, f"t{n}", f"t{count - 1}") for n in range(count))


def loose(count: int) -> str:
    return "".join(f'<task id="t{n}"/>' for n in range(count))


def borders(count: int) -> str:
    return '<task id="h"/>' + "".join(
        f'<boundaryEvent id="b{n}" attachedToRef="h" name="b"/><task id="t{n}"/>' + flow(n, f"b{n}", f"t{n}")
        for n in range(count)
    )


def lanes(count: int) -> str:
    refs = "".join(f'<lane id="l{n}"><flowNodeRef>t{n}</flowNodeRef></lane>' for n in range(count))
    return f"<laneSet>{refs}</laneSet>{chain(count)}"


def notes(count: int) -> str:
    return (
        '<task id="h"/><task id="i"/>'
        + flow(0, "h", "i")
        + "".join(
            f'<textAnnotation id="n{n}"/><association id="a{n}" sourceRef="h" targetRef="n{n}"/>' for n in range(count)
        )
    )


def nested(count: int) -> str:
    return '<subProcess id="s">' * 30 + chain(count) + "</subProcess>" * 30


def calls(content: bytes) -> int:
    """How many functions are called to draw a model: a measure that does not depend on the machine."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        draw(content)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [chain, star, ladder, returns, skips, loose, borders, lanes, notes, nested])
def test_the_work_grows_with_the_model(make: Callable[[int], str]) -> None:
    small, large = calls(model(make(150))), calls(model(make(600)))

    assert large < 5 * small, f"four times the model takes {large / small:.1f} times the calls"


@pytest.mark.timeout(600)
def test_ten_thousand_elements_are_drawn() -> None:
    content = model(chain(2_500) + loose(5_000).replace('"t', '"u'))

    picture = draw(content)

    assert len(picture.shapes) == 7_500
    assert len(picture.edges) == 2_499
