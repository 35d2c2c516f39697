"""Positions: bytes in, lines and columns out, however long the line is."""

import pytest

from verblint.bpmn.source import Position, Source

LONG = "é" * 10_000 + "<" + "日本" * 5_000


@pytest.mark.parametrize("index", [0, 1, 4096, 9_999, 10_000, 10_001, 15_000, 20_000])
def test_a_column_counts_characters_in_a_line_of_any_length(index: int) -> None:
    source = Source("x", ("first\n" + LONG + "\nlast").encode())

    assert source.position(len(("first\n" + LONG[:index]).encode())) == Position(2, index + 1)


def test_a_line_behind_a_long_one_begins_at_column_1() -> None:
    source = Source("x", (LONG + "\nlast").encode())

    assert source.position(len((LONG + "\n").encode())) == Position(2, 1)
    assert source.position(len((LONG + "\nla").encode())) == Position(2, 3)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_position_is_the_same_whether_it_is_the_first_or_the_last_that_is_asked_for(mark: str, end: str) -> None:
    content = (mark + end.join(["first", "", "zweite é", "last", ""])).encode()
    offsets = [offset for offset in range(len(content) + 1) if content[offset : offset + 1] < b"\x80"]
    asked_often = Source("x", content)
    for offset in offsets:
        asked_often.position(offset)

    assert [Source("x", content).position(o) for o in offsets] == [asked_often.position(o) for o in offsets]


def test_the_end_of_a_file_is_a_place() -> None:
    content = ("a" * 8192).encode()

    assert Source("x", content).position(8192) == Position(1, 8193)
