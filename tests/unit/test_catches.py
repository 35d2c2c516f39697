"""What a deployed model catches at each step, and the sentence where it catches nothing."""

import pytest

from tests.support.error_models import ROWS, Row
from verbworker.model.catches import StepCatches, as_json, catches_of, from_json, uncaught


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_step_catches_what_the_table_says(row: Row) -> None:
    found = catches_of(row.drawing.xml(), "p")

    assert found["work"].catches(row.code) == (row.by is not None)
    assert from_json(as_json(found)) == found


def test_a_model_that_cannot_be_read_and_another_process_catch_nothing() -> None:
    assert catches_of(b"<definitions", "p") == {}
    assert catches_of(ROWS[0].drawing.xml(), "another") == {}


def test_every_code_is_caught_or_the_named_ones() -> None:
    assert StepCatches(every=True).catches("any")
    assert StepCatches(("A", "B")).catches("B")
    assert not StepCatches(("A", "B")).catches("C")


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        (
            ("book",),
            "no boundary event on book catches policy-lapsed;"
            " add an error boundary event for it to book, and deploy the model",
        ),
        (
            ("book", "inner", "outer"),
            "no boundary event on book nor on the subprocess inner or the subprocess outer around it catches"
            " policy-lapsed; add an error boundary event for it to book or the subprocess inner or the subprocess"
            " outer, and deploy the model",
        ),
        ((), "book is an event, and engines take no error code from an event; make it a task"),
    ],
)
def test_the_sentence_names_the_code_and_where_a_catcher_could_stand(hosts: tuple[str, ...], sentence: str) -> None:
    assert uncaught("book", "policy-lapsed", StepCatches(hosts=hosts)) == sentence
