"""The reader keeps every byte's place and refuses what a model never needs."""

import pytest

from tests.support.bpmn import document, process, tree
from verblint.bpmn.element import BPMN, ZEEBE, Element
from verblint.bpmn.reader import Limits, ModelError, read
from verblint.bpmn.source import Position, Source


def bytes_of(element: Element, start: int, end: int) -> bytes:
    return element.document.source.content[start:end]


def refused(content: bytes, limits: Limits | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read(content, "case.bpmn", limits or Limits())
    return caught.value


# Names and places


def test_names_are_namespaces_and_not_prefixes() -> None:
    root = read(f'<x:definitions xmlns:x="{BPMN}"><x:process id="p"/></x:definitions>'.encode())

    assert root.is_a("definitions")
    assert [(child.namespace, child.local, child.id) for child in root.children] == [(BPMN, "process", "p")]


def test_an_attribute_in_a_namespace_is_not_the_plain_one() -> None:
    root = read(f'<a xmlns:z="{ZEEBE}" z:type="qualified" type="plain"/>'.encode())

    assert root.get("type") == "plain"
    assert root.get("type", ZEEBE) == "qualified"
    assert [(a.namespace, a.local) for a in root.attributes] == [(ZEEBE, "type"), ("", "type")]


def test_an_element_knows_line_and_column_of_its_bracket() -> None:
    root = read(b'<a>\n  <b\n id="x">\n</b></a>')

    child = root.children[0]
    assert (child.line, child.place.position.column) == (2, 3)
    assert child.place.end_position == Position(3, 9)
    assert repr(child) == "<b id='x' line=2>"


def test_columns_count_characters_and_lines_count_every_line_end() -> None:
    root = read("<a>\r\n\rä€𝄞<b/>\n</a>".encode())

    assert root.children[0].place.position == Position(3, 4)


def test_a_byte_order_mark_does_not_shift_columns() -> None:
    root = read(b"\xef\xbb\xbf<a/>")

    assert root.place.position == Position(1, 1)
    assert bytes_of(root, root.start, root.end) == b"<a/>"


@pytest.mark.parametrize(
    "written",
    [
        "<b/>",
        "<b />",
        "<b></b>",
        "<b></b >",
        "<b>text</b>",
        "<b>/></b>",
        "<b><c/></b>",
        "<b><!-- /> --></b>",
        "<b><?pi />?></b>",
        "<b><![CDATA[/>]]></b>",
        "<b x='/>'/>",
        '<b x="/>"></b>',
        "<b\n>\n</b\n>",
    ],
)
def test_the_whole_of_an_element_is_what_was_written(written: str) -> None:
    root = read(f"<a> {written} </a>".encode())

    child = root.children[0]
    assert bytes_of(child, child.whole.start, child.whole.end) == written.encode()


def test_the_end_of_a_start_tag_is_not_fooled_by_quoted_brackets() -> None:
    root = read(b"<a x='>' y=\">'\"><b/></a>")

    assert bytes_of(root, root.start, root.tag_end) == b"<a x='>' y=\">'\">"


def test_an_attribute_knows_the_bytes_of_its_value() -> None:
    root = read(b"<a\n  x = 'one'\ty=\"two\" xmlns:n='u' n:z=''/>")

    written = [bytes_of(root, a.place.start, a.place.end) for a in root.attributes]
    assert written == [b"one", b"two", b""]
    whole = root.attributes[0].whole
    assert bytes_of(root, whole.start, whole.end) == b"x = 'one'"


def test_a_part_of_a_value_is_found_behind_references_and_line_ends() -> None:
    root = read("<a x='ä&lt;&#x41;\r\n&amp;end'/>".encode())

    attribute = root.attribute("x")
    assert attribute is not None
    assert attribute.value == "ä<A &end"
    parts = [attribute.part(index, index + 1) for index in range(5)]
    assert [bytes_of(root, p.start, p.end) for p in parts] == ["ä".encode(), b"&lt;", b"&#x41;", b"\r\n", b"&amp;"]
    tail = attribute.part(5, 8)
    assert bytes_of(root, tail.start, tail.end) == b"end"


def test_a_missing_attribute_is_none() -> None:
    assert read(b"<a/>").attribute("x") is None


def test_a_very_long_name_is_scanned_once() -> None:
    root = read(b"<" + b"n" * 1_000_000 + b" x='1'/>")

    assert [a.value for a in root.attributes] == ["1"]


# Text


def test_text_is_all_the_engine_would_join() -> None:
    root = read(b"<a>one<!-- c --> two<?pi?><![CDATA[ <three>]]><b> four</b></a>")

    assert root.text == "one two <three> four"
    assert root.children[0].text == " four"


@pytest.mark.req("LNT-02")
def test_comments_and_instructions_inside_an_expression_are_seen() -> None:
    content = b'<a><!-- outside --><b>=orch_x = "q"<!-- --> or domain_payload = "NEW"<?pi?></b><c/></a>'
    root = read(content)

    hidden, plain = root.children
    assert hidden.text == '=orch_x = "q" or domain_payload = "NEW"'
    assert [content[at : at + 2] for at in hidden.interruptions] == [b"<!", b"<?"]
    assert plain.interruptions == []
    assert len(root.interruptions) == 3


def test_a_part_of_a_text_is_found_behind_references_comments_and_sections() -> None:
    root = read("<a>é&amp;x<!-- -->y\r\n<![CDATA[&lt;]]>&#65;</a>".encode())

    assert root.text == "é&xy\n&lt;A"
    parts = [root.part(index, index + 1) for index in range(len(root.text))]
    written = [bytes_of(root, p.start, p.end).decode() for p in parts]
    assert written == ["é", "&amp;", "x", "y", "\r\n", "&", "l", "t", ";", "&#65;"]


def test_a_part_may_span_pieces() -> None:
    root = read(b"<a>ab<!-- c -->cd</a>")

    part = root.part(1, 3)
    assert bytes_of(root, part.start, part.end) == b"b<!-- c -->c"


# The tree


def test_walk_goes_down_in_document_order() -> None:
    root = tree(process("<startEvent id='s'/><subProcess id='sub'><task id='t'/></subProcess><endEvent id='e'/>"))

    assert [element.id for element in root.walk()] == ["file", "case", "s", "sub", "t", "e"]
    assert [element.id for element in root.walk("task")] == ["t"]
    assert list(root.walk("task", ZEEBE)) == []


def test_an_element_finds_its_children_and_its_ancestors() -> None:
    root = tree(process("<task id='t'/><task id='u'/>"))

    holder = root.find("process")
    assert holder is not None
    assert [task.id for task in holder.find_all("task")] == ["t", "u"]
    assert holder.find("endEvent") is None
    assert [above.id for above in holder.children[0].ancestors] == ["case", "file"]


def test_a_source_shows_its_lines() -> None:
    source = Source("x", b"one\r\ntwo\rthree\nfour")

    assert [source.line(number) for number in (1, 2, 3, 4)] == ["one", "two", "three", "four"]


# What is refused


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", Position(1, 1)),
        (b"\xef\xbb\xbf", Position(1, 1)),
        (b"   ", Position(1, 4)),
        (b"<a>", Position(1, 4)),
        (b"<a>\n</b>", Position(2, 3)),
        (b"<a b=1/>", Position(1, 6)),
        (b'<a b="1" b="2"/>', Position(1, 10)),
        (b"<p:a/>", Position(1, 1)),
        (b"<a>&nbsp;</a>", Position(1, 4)),
        (b"<a>\xff</a>", Position(1, 4)),
        (b"<a>\xed\xa0\x80</a>", Position(1, 4)),
        (b"<a/><b/>", Position(1, 5)),
        (b"<a>\x00</a>", Position(1, 4)),
    ],
)
def test_what_is_not_well_formed_is_refused_with_its_place(content: bytes, place: Position) -> None:
    error = refused(content)

    assert error.code == "HB001"
    assert error.message.startswith("not well-formed XML: ")
    assert (error.line, error.column) == place


BILLION_LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9))
    + "]><l>&j;</l>"
)
QUADRATIC = '<!DOCTYPE q [<!ENTITY a "' + "x" * 500_000 + '">]><q>' + "&a;" * 50_000 + "</q>"


@pytest.mark.parametrize(
    "content",
    [
        "<!DOCTYPE a><a/>",
        '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "urn:far">%p;]><a/>',
        BILLION_LAUGHS,
        QUADRATIC,
    ],
    ids=["bare", "external", "file", "parameter", "laughs", "quadratic"],
)
def test_a_document_type_is_refused_before_its_entities_matter(content: str) -> None:
    error = refused(content.encode())

    assert error.code == "HB002"
    assert "DOCTYPE" in error.message


@pytest.mark.parametrize(
    "content",
    [
        b'<?xml version="1.0" encoding="UTF-7"?><a/>',
        b'<?xml version="1.0" encoding="windows-1252"?><a/>',
        b'<?xml version="1.0" encoding="ISO-8859-1"?><a/>',
        b'<?xml version="1.0" encoding="UTF-16"?><a/>',
        '<?xml version="1.0" encoding="US-ASCII"?><a>é</a>'.encode(),
        '<?xml version="1.0" encoding="UTF-16"?><a/>'.encode("utf-16"),
        "<a/>".encode("utf-16-le"),
        "<a/>".encode("utf-16-be"),
        "<a/>".encode("utf-32"),
        b'<?xml version="1.1"?><a/>',
    ],
)
def test_another_encoding_is_refused(content: bytes) -> None:
    error = refused(content)

    assert error.code == "HB003"
    assert (error.line, error.column) == (1, 1)


@pytest.mark.parametrize(
    "content",
    [
        b"<a/>",
        b"\xef\xbb\xbf<a/>",
        b'<?xml version="1.0"?><a/>',
        b'<?xml version="1.0" encoding="utf-8"?><a/>',
        b'<?xml version="1.0" encoding="US-ASCII"?><a/>',
        b'\xef\xbb\xbf<?xml version="1.0" encoding="ascii"?><a/>',
    ],
)
def test_utf8_and_ascii_are_read(content: bytes) -> None:
    assert read(content).local == "a"


@pytest.mark.parametrize(
    ("content", "limits", "word"),
    [
        (b"<a>" + b" " * 100 + b"</a>", Limits(size=100), "bytes"),
        (b"<a>" * 100_000, Limits(), "nested"),
        (b"<a><b><c/></b></a>", Limits(depth=2), "nested"),
        (b"<a>" + b"<b/>" * 50_000 + b"</a>", Limits(), "50,000 elements"),
    ],
)
def test_too_much_is_refused(content: bytes, limits: Limits, word: str) -> None:
    error = refused(content, limits)

    assert error.code == "HB004"
    assert word in error.message


def test_the_limits_themselves_are_allowed() -> None:
    content = b"<a><b><c/></b></a>"

    assert read(content, limits=Limits(size=len(content), depth=3, elements=3)).local == "a"


def test_the_message_is_the_error() -> None:
    assert str(refused(b"<!DOCTYPE a><a/>")) == "a DOCTYPE is not allowed in a model; remove it with its entities"


@pytest.mark.parametrize(
    "content",
    [
        b"<a>" * 100_000,
        BILLION_LAUGHS.encode(),
        QUADRATIC.encode(),
        b"<a " + b" ".join(b'x%d="1"' % i for i in range(100_000)) + b">",
        b"<a>" + b"&#65;" * 400_000,
        b"<a>" + b"\n" * 2_000_000,
        b"<a" + b" " * 2_000_000,
        b'<a x="' + b"<" * 2_000_000,
        b"<a>" + b"<!---->" * 290_000,
    ],
)
def test_a_hostile_document_is_refused_and_not_chewed(content: bytes) -> None:
    assert refused(content).code in ("HB001", "HB002", "HB004")


def test_a_large_model_is_read_whole() -> None:
    tasks = "".join(f"<task id='t{number}' name='Step {number}'/>" for number in range(20_000))
    root = read(document(process(tasks)))

    assert sum(1 for _ in root.walk("task")) == 20_000


def test_every_attribute_has_its_span_and_declarations_have_none() -> None:
    content = b'<a xmlns="urn:x" xmlns:y="urn:y" one="1" y:two=\'2\'/>'
    spans = list(read(content).attribute_spans())

    assert [(content[name:value], content[value:end]) for name, value, end in spans] == [
        (b'one="', b"1"),
        (b"y:two='", b"2"),
    ]
