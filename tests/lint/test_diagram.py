"""The diagram: passed over when it is plain, held to the limits when it is not, and its ids counted either way."""

import pytest

from tests.support.lint_models import CLEAN
from tests.support.model_source import ModelSource
from verblint.bpmn.diagram import end_of_inside, exact_ids, ids
from verblint.bpmn.element import BPMN, DIAGRAM
from verblint.bpmn.reader import Limits, ModelError, read
from verblint.linter import inspect

NAMESPACES = f'xmlns:di="{DIAGRAM}"'


def drawn(inside: str, *, name: str = "BPMNDiagram") -> bytes:
    """A model with a diagram."""
    diagram = f'<di:{name} id="d" {NAMESPACES}>{inside}</di:{name}>'
    return CLEAN.replace(b"</definitions>", diagram.encode() + b"</definitions>")


def nested(depth: int) -> str:
    return "<di:a>" * depth + "</di:a>" * depth


def codes(content: bytes) -> list[str]:
    return [finding.code for finding in inspect(content).findings]


PLAIN = ["", "<di:a/>", '<di:a id="x"><di:b/></di:a>', "text", nested(90)]
ODD = [
    "<!-- a comment -->",
    "<?an instruction?>",
    "<![CDATA[</di:a>]]>",
    '<di:a label="x > y"/>',
    '<di:BPMNDiagram id="inner"/>',
    "<di:a>BPMNDiagram</di:a>",
    ">",
]


@pytest.mark.parametrize("inside", PLAIN)
def test_a_plain_diagram_is_passed_over(inside: str) -> None:
    content = drawn(inside)

    assert content[end_of_inside(content, 50_000, 100) :].startswith(b"</di:BPMNDiagram>")


@pytest.mark.parametrize("inside", ODD)
def test_a_diagram_that_is_not_plain_is_watched(inside: str) -> None:
    assert end_of_inside(drawn(inside), 50_000, 100) == 0


@pytest.mark.parametrize("inside", [*PLAIN, *ODD])
def test_of_either_diagram_only_the_outer_element_is_in_the_tree(inside: str) -> None:
    root = read(drawn(inside))
    (diagram,) = root.document.elements[(DIAGRAM, "BPMNDiagram")]

    assert (list(diagram.children), diagram.parent) == ([], root)
    assert root.children[-1] is diagram
    assert diagram.end == root.close
    assert codes(drawn(inside)) == []


def test_text_behind_a_diagram_is_found() -> None:
    assert codes(drawn("<di:a/>").replace(b"</definitions>", b"TODO</definitions>")) == ["HB016"]


def test_elements_behind_a_diagram_are_in_the_tree() -> None:
    content = drawn("<di:a/>").replace(b"</definitions>", b'<error id="late"/> </definitions>')
    root = read(content)

    assert [element.local for element in root.children[-2:]] == ["BPMNDiagram", "error"]
    assert root.end == len(content.rstrip())


def test_what_stands_behind_the_root_is_no_part_of_it() -> None:
    content = drawn("<di:a/>") + b"\n\n"
    root = read(content)

    assert content[root.start : root.end] == content.strip()[root.start :]
    assert content[root.close :].strip() == b"</definitions>"


def test_a_file_without_a_diagram_has_no_end_of_it() -> None:
    assert end_of_inside(CLEAN, 50_000, 100) == 0


def test_a_file_that_may_have_too_many_elements_is_watched() -> None:
    assert end_of_inside(drawn("<di:a/>" * 30), 20, 100) == 0
    assert end_of_inside(drawn("x" * 200), 50, 100) > 0


@pytest.mark.parametrize("inside", [nested(200), nested(50) + nested(150), "<!-- -->" + nested(200)])
def test_a_diagram_that_is_too_deep_is_refused(inside: str) -> None:
    with pytest.raises(ModelError, match="nested more than 100 deep"):
        read(drawn(inside))


def test_many_shapes_are_not_deep() -> None:
    content = drawn("<di:a><di:b/></di:a>" * 500)

    assert end_of_inside(content, 50_000, 100) > 0
    assert len(read(content).children) == 2


def test_brackets_in_values_cannot_hide_depth() -> None:
    hidden = '<di:a x="/>">' * 200 + "</di:a>" * 200

    with pytest.raises(ModelError, match="nested more than 100 deep"):
        read(drawn(hidden))


@pytest.mark.parametrize("inside", ["<di:a/>" * 60, "<!-- -->" + "<di:a/>" * 60])
def test_a_diagram_with_too_many_elements_is_refused(inside: str) -> None:
    with pytest.raises(ModelError, match="more than 50 elements"):
        read(drawn(inside), limits=Limits(elements=50))


def test_elements_behind_a_watched_diagram_count_together_with_it() -> None:
    content = drawn("<!-- -->" + "<di:a/>" * 30).replace(b"</definitions>", b"<message/>" * 30 + b"</definitions>")

    with pytest.raises(ModelError, match="more than 50 elements"):
        read(content, limits=Limits(elements=50))
    assert len(read(content).document.elements[(BPMN, "message")]) == 30


def test_a_diagram_of_another_namespace_is_an_element_like_others() -> None:
    content = drawn("<di:a/>").replace(DIAGRAM.encode(), b"urn:other")

    assert ("urn:other", "a") in read(content).document.elements


def test_a_diagram_that_is_not_closed_is_refused() -> None:
    with pytest.raises(ModelError, match="mismatched tag"):
        read(drawn("<di:a>"))


@pytest.mark.parametrize(
    "inside",
    [
        '<di:a id="yes"/>',
        '<di:a id="x"/><di:b id="x"/>',
        "<di:a id='yes'/>",
        '<di:a id = "yes"/>',
        '<di:a id\n=\n"yes"/>',
        '<di:a id="&#121;es"/>',
        '<!-- --><di:a id="yes"/>',
        '<di:a id="d"/>',
    ],
)
def test_an_id_of_a_diagram_is_found_however_it_is_written(inside: str) -> None:
    assert "HB009" in codes(drawn(inside))


@pytest.mark.parametrize(
    "inside", ['<di:a myid="yes"/>', "<di:a label='id=\"yes\"'/>", "<di:a id='mine'/>", '<!-- id="yes" -->', "id='yes'"]
)
def test_what_only_looks_like_an_id_is_none(inside: str) -> None:
    assert "HB009" not in codes(drawn(inside))


def test_unusual_bytes_are_left_to_the_parser() -> None:
    assert ids(b'<a id="x"/><b id="y"/>') == [b"x", b"y"]
    assert ids(b"<a id='x'/>") is None
    assert exact_ids(drawn("<di:a id='x'><di:b id=\"y\"/></di:a>"))[0][0] == "x"


def test_drawn_models_are_passed_over() -> None:
    assert all(end_of_inside(content, 50_000, 100) for content in ModelSource(11).sized(20))
