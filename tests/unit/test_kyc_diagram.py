"""The example's models as Camunda Modeler draws them: everything has its place."""

import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

MODELS = sorted((Path(__file__).parents[2] / "processes").glob("*/process.bpmn"))
BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
DI = "{http://www.omg.org/spec/BPMN/20100524/DI}"
DC = "{http://www.omg.org/spec/DD/20100524/DC}"
WAYPOINT = "{http://www.omg.org/spec/DD/20100524/DI}waypoint"

Box = tuple[float, float, float, float]


def nodes(root: Xml.Element) -> dict[str, Xml.Element]:
    (process,) = root.findall(f"{BPMN}process")
    kinds = ("Event", "Task", "Gateway", "subProcess")
    return {node.attrib["id"]: node for node in process.iter() if node.tag.endswith(kinds)}


def boxes(root: Xml.Element) -> dict[str, Box]:
    found = {}
    for shape in root.iter(f"{DI}BPMNShape"):
        bounds = shape.find(f"{DC}Bounds")
        assert bounds is not None
        x, y, width, height = (float(bounds.attrib[name]) for name in ("x", "y", "width", "height"))
        found[shape.attrib["bpmnElement"]] = (x, y, x + width, y + height)
    return found


def edges(root: Xml.Element) -> dict[str, list[tuple[float, float]]]:
    return {
        edge.attrib["bpmnElement"]: [(float(p.attrib["x"]), float(p.attrib["y"])) for p in edge.iter(WAYPOINT)]
        for edge in root.iter(f"{DI}BPMNEdge")
    }


def is_on_border(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    left, top, right, bottom = box
    return left <= x <= right and top <= y <= bottom and (x in (left, right) or y in (top, bottom))


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.parent.name)
class TestDiagram:
    def test_every_node_is_drawn_once(self, model: Path) -> None:
        root = Xml.parse(model).getroot()

        assert sorted(boxes(root)) == sorted(nodes(root))

    def test_every_flow_leads_from_border_to_border(self, model: Path) -> None:
        root = Xml.parse(model).getroot()
        drawn, placed = edges(root), boxes(root)
        flows = list(root.iter(f"{BPMN}sequenceFlow"))

        assert sorted(drawn) == sorted(flow.attrib["id"] for flow in flows)
        for flow in flows:
            way = drawn[flow.attrib["id"]]
            assert is_on_border(way[0], placed[flow.attrib["sourceRef"]]), flow.attrib["id"]
            assert is_on_border(way[-1], placed[flow.attrib["targetRef"]]), flow.attrib["id"]

    def test_nothing_is_drawn_over_something_else(self, model: Path) -> None:
        root = Xml.parse(model).getroot()
        placed, known = boxes(root), nodes(root)
        inside = {child.attrib["id"]: name for name, node in known.items() for child in node if "id" in child.attrib}
        free = [name for name, node in known.items() if not node.tag.endswith("boundaryEvent")]
        pairs = [(one, other) for one in free for other in free if one < other]

        for one, other in pairs:
            if inside.get(one) == other or inside.get(other) == one:
                continue
            assert not overlap(placed[one], placed[other]), (one, other)

    def test_what_happens_inside_is_drawn_inside(self, model: Path) -> None:
        root = Xml.parse(model).getroot()
        placed = boxes(root)
        parents = [node for node in nodes(root).values() if node.tag == f"{BPMN}subProcess"]

        for parent in parents:
            left, top, right, bottom = placed[parent.attrib["id"]]
            for child in (node for node in parent if node.attrib.get("id") in placed):
                x, y, end, foot = placed[child.attrib["id"]]
                assert left < x < end < right, child.attrib["id"]
                assert top < y < foot < bottom, child.attrib["id"]

    def test_everything_that_happens_has_a_name(self, model: Path) -> None:
        for name, node in nodes(Xml.parse(model).getroot()).items():
            is_plumbing = node.tag.endswith("parallelGateway") or name.endswith(("_begins", "_ends"))
            assert is_plumbing or node.attrib.get("name"), name
