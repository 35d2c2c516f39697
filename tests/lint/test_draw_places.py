"""Where things are in a picture: as the diagram says, or where our own layout has them."""

import pytest

from tests.lint.test_draw import classes, one, texts, without_diagram
from tests.support.drawn_models import HEAD, edge, shape
from tests.support.picture_checks import SVG, check_picture, parse
from verblint.draw import Picture, draw
from verblint.draw.geometry import Box, Spot, border_spot, crop, enclose, number, rounded_path, simplify
from verblint.draw.wrap import ELLIPSIS, text_width, wrap


def plane(element: str, *places: str, name: str = "") -> str:
    return (
        f'<bpmndi:BPMNDiagram name="{name}"><bpmndi:BPMNPlane bpmnElement="{element}">{"".join(places)}'
        "</bpmndi:BPMNPlane></bpmndi:BPMNDiagram>"
    )


def drawn(inside: str, *planes: str) -> Picture:
    content = f"{HEAD}{inside}{''.join(planes)}</definitions>".encode()
    picture = draw(content)
    check_picture(content, picture)
    return picture


def flow(id: str, source: str, target: str, more: str = "") -> str:
    return f'<sequenceFlow id="{id}" sourceRef="{source}" targetRef="{target}" {more}/>'


PAIR = (
    '<process id="p"><task id="a"/><task id="b"/><sequenceFlow id="f" sourceRef="a" targetRef="b" name="{}"/></process>'
)
A, B = shape("a", 0, 0, 100, 80), shape("b", 200, 0, 100, 80)


def test_a_line_between_the_middles_of_shapes_is_cut_at_their_borders() -> None:
    picture = drawn(PAIR.format(""), plane("p", A, B, edge("f", ((50, 40), (250, 40)))))

    assert picture.edges["f"] == (Spot(100, 40), Spot(200, 40))


def test_a_line_without_waypoints_is_connected() -> None:
    places = A + shape("b", 0, 200, 100, 80) + shape("c", 20, 20, 100, 80) + shape("g", 400, 300, 50, 50)
    inside = PAIR.format("").replace("</process>", '<task id="c"/><exclusiveGateway id="g"/>')
    inside += flow("h", "a", "g") + flow("i", "b", "a") + flow("j", "a", "c") + flow("k", "a", "a") + "</process>"

    picture = drawn(inside, plane("p", places))

    assert picture.edges["f"] == (Spot(50, 80), Spot(50, 200))
    assert picture.edges["i"] == (Spot(50, 200), Spot(50, 80))
    assert picture.edges["h"][0] == Spot(100, 40)
    assert picture.edges["h"][-1] == Spot(400, 325)
    assert len(picture.edges["j"]) == 2
    assert len(picture.edges["k"]) == 5


def test_shapes_at_the_same_place_have_no_line() -> None:
    picture = drawn(PAIR.format(""), plane("p", A, shape("b", 0, 0, 100, 80)))

    assert picture.edges == {}


def test_labels_are_where_the_diagram_has_them() -> None:
    label = '<bpmndi:BPMNLabel><dc:Bounds x="300" y="500" width="40" height="14"/></bpmndi:BPMNLabel></bpmndi:'
    places = shape("s", 0, 0, 36, 36).replace("</bpmndi:", label, 1) + shape("a", 100, 0, 100, 80)
    places += edge("f", ((36, 18), (100, 18))).replace("</bpmndi:", label.replace("300", "600"), 1)
    inside = (
        '<process id="p"><startEvent id="s" name="Begin"/><task id="a"/>'
        + flow("f", "s", "a", 'name="go"')
        + "</process>"
    )

    picture = drawn(inside, plane("p", places))

    assert one(picture, "s").find(f"{SVG}text").get("x") == "320"  # type: ignore[union-attr]  # it has a name
    assert one(picture, "f").find(f"{SVG}text").get("x") == "620"  # type: ignore[union-attr]  # it has a name
    assert picture.view.right > 620


def test_prefixes_of_references_are_left_out() -> None:
    picture = drawn(PAIR.format(""), plane("ns:p", A.replace('"a"', '"ns:a"'), B, edge("ns:f", ((100, 40), (200, 40)))))

    assert set(picture.shapes) == {"a", "b"}
    assert picture.edges["f"] == (Spot(100, 40), Spot(200, 40))


NESTED = (
    '<process id="p"><task id="a"/><task id="b"/><subProcess id="s" name="Inner"><task id="i"/><task id="j"/>'
    + flow("g", "i", "j")
    + '<subProcess id="t"><task id="deep"/></subProcess></subProcess></process>'
)


def test_what_is_in_a_collapsed_subprocess_is_hidden() -> None:
    inner = shape("i", 220, 20, 10, 10) + shape("j", 240, 20, 10, 10) + edge("g", ((230, 25), (240, 25)))
    for di in ('isExpanded="false"', ""):
        picture = drawn(NESTED, plane("p", A, B, shape("s", 200, 100, 100, 80, di=di), inner))

        assert set(picture.shapes) == {"a", "b", "s"}
        assert "scope" not in classes(picture, "s")


def test_a_diagram_of_its_own_shows_a_collapsed_subprocess_below() -> None:
    inner = plane("s", shape("i", 0, 0, 100, 80), shape("j", 150, 0, 100, 80), edge("g", ((100, 40), (150, 40))))
    first = plane("p", A, B, shape("s", 200, 100, 100, 80))

    picture = drawn(NESTED, first, inner)

    assert picture.shapes["i"].y > picture.shapes["s"].bottom
    assert picture.edges["g"][0] == Spot(picture.shapes["i"].right, picture.shapes["i"].centre.y)
    headings = [part.text for part in parse(picture).iter(f"{SVG}text") if part.get("class") == "heading"]
    assert headings == ["Inner"]


def test_a_second_diagram_of_the_same_elements_adds_nothing() -> None:
    one_plane, twice = (
        drawn(PAIR.format(""), plane("p", A, B)),
        drawn(PAIR.format(""), plane("p", A, B), plane("p", A, B)),
    )

    assert one_plane.svg == twice.svg


def test_an_open_subprocess_without_the_attribute_is_known_by_its_size() -> None:
    picture = drawn(NESTED, plane("p", A, B, shape("s", 200, 100, 300, 200), shape("i", 220, 130, 100, 80)))

    assert "scope" in classes(picture, "s")
    assert {"i", "j", "t", "deep"} <= set(picture.shapes)


def test_a_diagram_that_leaves_out_most_is_not_used() -> None:
    picture = drawn(NESTED, plane("p", A))

    assert picture.is_made_up
    assert set(picture.shapes) == {"a", "b", "s", "i", "j", "t", "deep"}


def test_what_a_diagram_leaves_out_is_below_it() -> None:
    many = "".join(f'<task id="m{n}"/>' for n in range(12))
    host = '<boundaryEvent id="x" attachedToRef="a"/><boundaryEvent id="y" attachedToRef="a"/>'
    known = "".join(f'<task id="k{n}"/>' for n in range(20))
    inside = f'<process id="p">{known}<task id="a"/>{many}{host}</process>'
    places = A + "".join(shape(f"k{n}", 120 * n, -200, 100, 80) for n in range(3))
    places += "".join(shape(f"k{n}", 120 * n - 360, -300, 100, 80) for n in range(3, 20))

    picture = drawn(inside, plane("p", places))

    assert not picture.is_made_up
    assert {picture.shapes[f"m{n}"].y for n in range(12)} == {130}
    assert abs(picture.shapes["x"].centre.y - 80) < 1
    assert picture.shapes["x"].x > picture.shapes["y"].right


def test_rows_of_what_is_left_out_are_filled() -> None:
    inside = '<process id="p">' + "".join(f'<task id="t{n}"/>' for n in range(40)) + "</process>"
    picture = drawn(inside, plane("p", *(shape(f"t{n}", 0, 90 * n, 100, 80) for n in range(25))))

    assert len({picture.shapes[f"t{n}"].y for n in range(25, 40)}) > 1


POOLS = (
    '<collaboration id="c"><participant id="one" name="One" processRef="p"/><participant id="two" name="Two"/>'
    '<participant id="three" processRef="q"/><participant id="again" processRef="p"/>'
    '<messageFlow id="m1" sourceRef="a" targetRef="two" name="ask"/>'
    '<messageFlow id="m2" sourceRef="two" targetRef="a"/>'
    '<messageFlow id="m3" sourceRef="x" targetRef="b"/><messageFlow id="m4" sourceRef="a" targetRef="gone"/>'
    '<messageFlow id="m5" sourceRef="a" targetRef="b"/><textAnnotation id="note"/></collaboration>'
    '<process id="p"><laneSet><lane id="top" name="Top"><flowNodeRef>a</flowNodeRef></lane><lane id="low" name="Low">'
    '<childLaneSet><lane id="low1"><flowNodeRef>b</flowNodeRef></lane><lane id="low2"/></childLaneSet></lane></laneSet>'
    '<task id="a"/><subProcess id="b"><task id="in"/></subProcess><task id="c2"/>'
    '<dataObjectReference id="d" name="Data"/>'
    '<association id="as" sourceRef="d" targetRef="b"/>' + flow("f", "a", "b") + flow("g", "b", "c2") + "</process>"
    '<process id="q"><task id="x"/></process><process id="free"><task id="z"/></process>'
)


def test_pools_and_lanes_without_a_diagram_enclose_their_nodes() -> None:
    picture = drawn(POOLS)
    places = picture.shapes

    for outer, inner in (("one", "top"), ("one", "low"), ("low", "low1"), ("low", "low2"), ("top", "a"), ("low1", "b")):
        assert enclose([places[outer], places[inner]]) == places[outer], (outer, inner)
    assert enclose([places["low1"], places["d"]]) == places["low1"]
    assert places["one"].bottom < places["two"].y < places["two"].bottom < places["three"].y
    assert places["one"].width == places["two"].width == places["three"].width
    assert places["z"].y > places["again"].bottom
    assert picture.edges["m1"] == (
        Spot(places["a"].centre.x, places["a"].bottom),
        Spot(places["a"].centre.x, places["two"].y),
    )
    assert picture.edges["m2"] == tuple(Spot(spot.x + 20, spot.y) for spot in picture.edges["m1"][::-1])
    assert picture.edges["m3"][0].y == places["x"].y
    assert "m4" not in picture.edges
    assert "note" in places


def test_messages_of_one_node_are_apart() -> None:
    first = '<process id="p"><task id="a"/><startEvent id="s"/></process>'
    pools = '<participant id="one" processRef="p"/><participant id="two" processRef="q"/>'
    ways = (("a", "b"), ("b", "a"), ("s", "b"))
    lines = "".join(f'<messageFlow id="m{n}" sourceRef="{x}" targetRef="{y}"/>' for n, (x, y) in enumerate(ways))

    picture = drawn(
        f'{first}<process id="q"><task id="b"/></process><collaboration id="c">{pools}{lines}</collaboration>'
    )

    middle = picture.shapes["b"].centre.x
    assert [picture.edges[f"m{n}"][1 if n == 1 else -1].x - middle for n in (0, 2)] == [0, -20]
    assert picture.edges["m1"][0].x == middle + 20
    assert picture.edges["m2"][0].x == picture.shapes["s"].centre.x


def test_pools_are_behind_their_lanes_and_called_processes_in_front() -> None:
    inside = (
        '<process id="p"><laneSet><lane id="l"/></laneSet><callActivity id="call" name="Call"/></process>'
        '<process id="q"><task id="t"/></process>'
        '<collaboration id="c"><participant id="pool" processRef="p"/></collaboration>'
    )
    places = shape("pool", 0, 0, 600, 400) + shape("l", 30, 0, 570, 400) + shape("t", 120, 80, 100, 80)
    places += shape("call", 100, 50, 300, 200, di='isExpanded="true"')

    picture = drawn(inside, plane("c", places))

    ids = [group.get("data-element-id") for group in parse(picture).iter(f"{SVG}g") if group.get("data-element-id")]
    assert ids == ["pool", "l", "call", "t"]
    assert classes(picture, "call") == {"activity", "call-activity", "thick", "scope"}


@pytest.mark.parametrize("lanes", ["", '<lane id="l"/>', '<lane id="l"/><lane id="m"/>'])
def test_a_pool_without_nodes_is_drawn_with_its_lanes(lanes: str) -> None:
    pool = '<collaboration id="c"><participant id="pool" processRef="p"/></collaboration>'
    picture = drawn(f'{pool}<process id="p"><laneSet>{lanes}</laneSet></process>')

    assert len(picture.shapes) == 1 + lanes.count("<lane ")
    assert enclose(picture.shapes.values()) == picture.shapes["pool"]


def test_pools_can_stand() -> None:
    places = shape("one", 0, 0, 300, 600, di='isHorizontal="false"') + shape(
        "top", 0, 30, 300, 570, di='isHorizontal="false"'
    )
    places += (
        shape("low", 0, 0, 10, 600)
        + shape("a", 50, 50, 100, 80)
        + shape("b", 50, 200, 100, 80, di='isExpanded="false"')
    )
    places += shape("two", 400, 0, 300, 60) + shape("three", 400, 100, 60, 300) + shape("c2", 50, 300, 100, 80)
    places += shape("x", 430, 120, 20, 20) + shape("z", 800, 0, 100, 80)
    picture = drawn(POOLS, plane("c", places))

    for id, is_turned in (("one", False), ("top", False), ("low", True), ("three", False)):
        turned = [group for group in one(picture, id).iter(f"{SVG}g") if "rotate" in (group.get("transform") or "")]
        assert bool(turned) is is_turned, id
    assert texts(one(picture, "two")) == ["Two"]


def test_the_longest_way_is_straight_and_branches_are_below() -> None:
    inside = (
        '<process id="p"><startEvent id="s"/><exclusiveGateway id="g" name="Which way?"/><task id="a"/><task id="b"/>'
    )
    inside += '<task id="c"/><exclusiveGateway id="j"/><endEvent id="e"/><task id="back"/>'
    ways = ("s g", "g a", "g b", "b c", "c j", "a j", "j e", "g j", "g back", "back g")
    inside += (
        "".join(flow(f"f{n}", way.split()[0], way.split()[1], 'name="way"') for n, way in enumerate(ways))
        + "</process>"
    )
    picture = drawn(inside)
    middle = {id: box.centre for id, box in picture.shapes.items()}

    assert len({middle[id].y for id in "sgbcje"}) == 1
    assert middle["a"].y > middle["b"].y
    assert middle["s"].x < middle["g"].x < middle["b"].x < middle["c"].x < middle["j"].x < middle["e"].x
    assert picture.edges["f1"][:2] == (
        Spot(middle["g"].x, picture.shapes["g"].bottom),
        Spot(middle["g"].x, middle["a"].y),
    )


def test_compensation_is_connected_to_its_handler() -> None:
    inside = (
        '<process id="p"><task id="a"/><task id="n"/><boundaryEvent id="x" attachedToRef="a" name="undo">'
        '<compensateEventDefinition/></boundaryEvent><boundaryEvent attachedToRef="a"/>'
        '<task id="u" isForCompensation="true"/>'
        '<association id="as" sourceRef="x" targetRef="u" associationDirection="One"/>'
        + flow("f", "a", "n")
        + "</process>"
    )
    picture = drawn(inside)

    assert picture.edges["as"][0] == Spot(picture.shapes["x"].centre.x, picture.shapes["x"].bottom)
    assert picture.shapes["u"].y > picture.shapes["a"].bottom


def test_events_in_every_notation() -> None:
    inside = (
        '<signalEventDefinition id="sig"/><process id="p">'
        '<endEvent id="a"><eventDefinitionRef>ns:sig</eventDefinitionRef>'
        '</endEvent><endEvent id="b"><eventDefinitionRef>gone</eventDefinitionRef></endEvent>'
        '<endEvent id="c"><strangeEventDefinition/></endEvent></process>'
    )
    picture = drawn(inside)

    assert one(picture, "a")[0].text == "a (signal end event)"
    assert one(picture, "b")[0].text == "b (end event)"
    assert one(picture, "c")[0].text == "c (strange end event)"


def test_data_and_messages_have_their_signs() -> None:
    inside = (
        '<category><categoryValue id="v" value="A group"/></category>'
        '<process id="p">'
        '<ioSpecification><dataInput id="di" name="In"/><dataOutput id="do"/><inputSet/></ioSpecification>'
        '<dataObject id="o" isCollection="true"/><dataObjectReference id="r" dataObjectRef="o" name="List"/>'
        '<group id="g" categoryValueRef="v"/><task id="a"><dataInputAssociation id="ia"><sourceRef>r</sourceRef>'
        '<targetRef>x</targetRef></dataInputAssociation><dataOutputAssociation id="oa"><targetRef>r</targetRef>'
        "</dataOutputAssociation></task></process>"
    )
    places = "".join(shape(id, 100 * n, 0, 90, 60) for n, id in enumerate(("di", "do", "o", "r", "g", "a")))

    picture = drawn(inside, plane("p", places))

    assert set(picture.edges) == {"ia", "oa"}
    assert texts(one(picture, "g")) == ["A group"]
    assert len(one(picture, "r").findall(f".//{SVG}path")) == len(one(picture, "do").findall(f".//{SVG}path")) == 3
    assert set(drawn(inside).shapes) == {"r", "g", "a"}


TALK = (
    '<collaboration id="c"><participant id="a"/><participant id="b"/><{} id="f" sourceRef="a" targetRef="b"/>'
    "</collaboration>"
)


@pytest.mark.parametrize("kind", ["initiating", "non_initiating"])
def test_a_message_can_be_shown_on_its_flow(kind: str) -> None:
    inside = TALK.format("messageFlow")
    line = edge("f", ((50, 80), (50, 200))).replace("bpmnElement", f'messageVisibleKind="{kind}" bpmnElement')

    picture = drawn(inside, plane("c", A, shape("b", 0, 200, 100, 80), line))

    assert any("solid" in (part.get("class") or "") for part in one(picture, "f").iter()) is (kind == "non_initiating")


def test_a_line_of_an_unknown_kind_is_a_plain_one() -> None:
    assert classes(drawn(TALK.format("conversationLink"), plane("c", A, B)), "f") == {"edge"}


def test_a_condition_is_marked_where_it_leaves_an_activity() -> None:
    condition = "<conditionExpression>=x</conditionExpression>"
    inside = PAIR.format("").replace("/></process>", f">{condition}</sequenceFlow></process>")
    from_task = drawn(inside)
    from_gateway = drawn(inside.replace("<task", "<exclusiveGateway", 1))

    assert "open-tip" in {part.get("class") for part in one(from_task, "f").iter()}
    assert "open-tip" not in {part.get("class") for part in one(from_gateway, "f").iter()}


def test_a_diagram_may_hold_anything() -> None:
    places = (
        '<bpmndi:BPMNShape bpmnElement="gone"><dc:Bounds x="1" y="1" width="9" height="9"/></bpmndi:BPMNShape>'
        '<dc:Bounds x="1" y="1" width="9" height="9"/><di:waypoint x="1" y="1"/><x:y xmlns:x="u"/>'
        '<bpmndi:BPMNShape bpmnElement="p"><dc:Bounds x="1" y="1" width="9" height="9"/></bpmndi:BPMNShape>'
        '<bpmndi:BPMNEdge bpmnElement="f"><dc:Bounds x="1" y="1" width="9" height="9"/></bpmndi:BPMNEdge>'
    )
    picture = drawn(
        PAIR.format("go"), plane("p", A, B, places), "<bpmndi:BPMNDiagram><dc:Bounds/></bpmndi:BPMNDiagram>"
    )
    headless = drawn(PAIR.format(""), "<bpmndi:BPMNDiagram><bpmndi:BPMNShape/></bpmndi:BPMNDiagram>", plane("p", A, B))

    assert set(picture.shapes) == set(headless.shapes) == {"a", "b"}


def test_texts_are_wrapped_at_words_and_cut_with_an_ellipsis() -> None:
    assert wrap("one two three", 1_000, 3, 12) == ["one two three"]
    assert wrap("one two three", text_width("one two", 12), 3, 12) == ["one two", "three"]
    assert wrap("one two three", text_width("three", 12), 2, 12) == ["one", f"tw{ELLIPSIS}"]
    assert wrap("one\n\ntwo", 100, 3, 12) == ["one", "two"]
    assert wrap("", 100, 3, 12) == wrap(" \n ", 100, 3, 12) == []
    assert wrap("businessRuleTask", text_width("businessRuleT", 12), 3, 12) == ["businessRule", "Task"]
    assert wrap("case.collect-documents", text_width("case.collect-d", 12), 3, 12) == ["case.collect-", "documents"]
    assert wrap("xxxxxxxx", text_width("xxx", 12), 9, 12) == ["xxx", "xxx", "xx"]
    assert wrap("漢字漢字", text_width("漢字", 12), 9, 12) == ["漢字", "漢字"]
    assert text_width("a\u0301", 10) == text_width("a", 10)
    assert wrap("x" * 500, 10_000, 1, 12)[0].endswith(ELLIPSIS)


def test_borders_and_corners() -> None:
    box = Box(0, 0, 100, 50)

    assert border_spot(box, "rectangle", Spot(150, 25)) == Spot(100, 25)
    assert border_spot(box, "circle", Spot(50, 90)) == Spot(50, 50)
    assert border_spot(box, "diamond", Spot(50, -90)) == Spot(50, 0)
    assert border_spot(box, "rectangle", box.centre) == Spot(100, 25)
    assert crop([Spot(50, 25), Spot(60, 25)], box, "rectangle") == [Spot(50, 25), Spot(60, 25)]
    assert crop([Spot(50, 25), Spot(50, 90)], box, "circle")[0] == pytest.approx(Spot(50, 50), abs=0.01)
    assert crop([Spot(50, 25), Spot(50, 90)], box, "diamond")[0] == pytest.approx(Spot(50, 50), abs=0.01)
    assert simplify([Spot(0, 0), Spot(0, 0), Spot(5, 0), Spot(9, 0), Spot(3, 0)]) == [
        Spot(0, 0),
        Spot(9, 0),
        Spot(3, 0),
    ]
    assert (number(-0.001), number(1.50), number(3)) == ("0", "1.5", "3")
    assert rounded_path([Spot(0, 0), Spot(20, 0), Spot(20, 20)]) == "M0 0L15 0Q20 0 20 5L20 20"
    assert without_diagram(b"x") == b"x"
