"""Text from people: what can be stored and read."""

from typing import Annotated
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from verbworker.contract.text import describe_misfit, escape_hidden, is_storable, require_name, require_text
from verbworker.errors import InvocationInvalid


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n", "the reason is empty"),
        ("x" * 11, "the reason is longer than 10 characters"),
        ("a\x00b", "the reason holds characters that cannot be kept"),
        ("\ud800", "the reason holds characters that cannot be kept"),
    ],
)
def test_a_text_that_cannot_be_kept_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvocationInvalid, match=words):
        require_text("the reason", text, 10)


def test_a_text_may_be_left_empty_where_that_is_allowed() -> None:
    require_text("the reason", "", 10, empty=True)
    require_text("the reason", "fine", 10)
    with pytest.raises(InvocationInvalid, match="the reason is empty"):
        require_text("the reason", "", 10)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rita\nroot", "the name holds control characters"),
        ("rita\u202e", "the name holds control characters"),
        (" ", "the name is empty"),
        ("x" * 11, "the name is longer than 10 characters"),
        ("\ud800", "the name holds characters that cannot be kept"),
    ],
)
def test_a_name_is_a_text_without_hidden_characters(text: str, words: str) -> None:
    require_name("the name", "Zoë \u200d", 10)

    with pytest.raises(InvocationInvalid, match=words):
        require_name("the name", text, 10)


def test_hidden_characters_are_shown_as_escapes_and_lines_only_where_there_are_some() -> None:
    text = "a\x1b[2J\u202eb\tc\nü"

    assert escape_hidden(text) == "a\\x1b[2J\\u202eb\tc\nü"
    assert escape_hidden(text, has_lines=False) == "a\\x1b[2J\\u202eb\\tc\\nü"


class Report(BaseModel):
    amount: Annotated[int, Field(gt=0)] = 1
    papers: dict[str, int] = {}
    kind: str = "fire"

    @field_validator("kind")
    @classmethod
    def check(cls, kind: str) -> str:
        if kind not in ("fire", "water"):
            raise ValueError(f"{kind!r} is not one of fire, water")
        return kind


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"amount": 0}, "must be greater than 0"),
        ({"papers": [1]}, "must be an object"),
        ({"kind": "nonsense"}, "'nonsense' is not one of fire, water"),
    ],
)
def test_what_pydantic_says_is_the_rest_of_a_sentence_about_the_field(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Report.model_validate(given)

    assert describe_misfit(dict(refused.value.errors()[0])) == words


def test_a_misfit_tells_no_hidden_character() -> None:
    class Named(BaseModel):
        entry_id: UUID

    for hidden in ("\x00", "\u202e", "\x9b", "\n"):
        with pytest.raises(ValidationError) as refused:
            Named.model_validate({"entry_id": hidden})
        words = describe_misfit(dict(refused.value.errors()[0]))

        assert words.startswith("must be a valid UUID")
        assert words.isprintable()


@pytest.mark.parametrize("value", ["ok", 7, None, {"a": ["b", ("c",)]}])
def test_a_value_of_storable_texts_is_storable(value: object) -> None:
    assert is_storable(value)


@pytest.mark.parametrize("value", ["\x00", {"\x00": 1}, {"a": "\x00"}, [{"a": ("\udfff",)}]])
def test_one_text_that_cannot_be_stored_is_enough(value: object) -> None:
    assert not is_storable(value)
