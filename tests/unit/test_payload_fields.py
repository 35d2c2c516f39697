"""What can be known of a case's data from its contract and the models of its verbs, and what cannot."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, model_validator

from tests.support.drawing import Drawing
from tests.support.models import line
from verbworker.contract.model_fields import find_missing_fields, find_unknown_step
from verbworker.engine.protocol import Resource
from verbworker.model.outline import outline


class Plain(BaseModel):
    claim: str
    policy: str
    note: str = ""


class Aliased(BaseModel):
    policy: str = Field(alias="policyNumber")


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    policy: str = Field(alias="policyNumber")


class Several(BaseModel):
    policy: str = Field(validation_alias=AliasChoices("contract", AliasPath("papers", "policy")))


class Filled(BaseModel):
    policy: str

    @model_validator(mode="before")
    @classmethod
    def fill(cls, data: Any) -> Any:
        return {"policy": "P-0", **data}


class Checked(BaseModel):
    policy: str

    @model_validator(mode="after")
    def check(self) -> "Checked":
        return self


class Listed(RootModel[list[int]]):
    pass


@pytest.mark.parametrize(
    ("model", "given", "missing"),
    [
        (Plain, {"claim", "polcy"}, ["policy"]),
        (Plain, {"claim", "policy"}, []),
        (Aliased, {"policy"}, ["policyNumber"]),
        (Aliased, {"policyNumber"}, []),
        (ByName, {"policy"}, []),
        (Several, {"papers"}, []),
        (Several, {"contract"}, []),
        (Several, {"policy"}, ["contract"]),
        (Filled, {"other"}, []),  # its validator may add anything
        (Checked, {"other"}, ["policy"]),
        (Listed, {"other"}, []),
    ],
)
def test_a_field_is_missing_only_if_nothing_can_provide_it(
    model: type[BaseModel], given: set[str], missing: list[str]
) -> None:
    assert find_missing_fields(model, given) == missing


class Address(BaseModel):
    street: str = Field(serialization_alias="streetName")
    next: "Address | None" = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    claim: str


class Client(BaseModel):
    name: str
    address: Address
    papers: dict[str, Plain] = {}
    other: Plain | Aliased | None = None
    open: Open | None = None
    opened: Open = Open(claim="")


class Unwritable(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    call: Callable[[], int] = int


@pytest.mark.parametrize(
    ("model", "field", "unknown"),
    [
        (Plain, "policy", None),
        (Plain, "polcy", ("polcy", ["claim", "policy", "note"])),
        (Aliased, "policyNumber", None),
        (Aliased, "policy", ("policy", ["policyNumber"])),
        (Client, "address.streetName", None),
        (Client, "address.street", ("street", ["streetName", "next"])),
        (Client, "address.next.anything", None),  # it may be null or another address
        (Client, "adress.streetName", ("adress", ["name", "address", "papers", "other", "open", "opened"])),
        (Client, "papers.any.thing", None),
        (Client, "other.anything", None),
        (Client, "opened.anything", None),
        (Client, "name.anything", None),
        (Open, "anything", None),
        (Listed, "anything", None),
        (Unwritable, "anything", None),
    ],
)
def test_a_step_is_unknown_only_if_the_model_cannot_have_it(
    model: type[BaseModel], field: str, unknown: tuple[str, list[str]] | None
) -> None:
    assert find_unknown_step(model, field) == unknown


def test_of_a_line_only_the_first_verb_sees_what_a_case_starts_with() -> None:
    found = outline(Resource("line.bpmn", line("parcel", ["parcel.weigh", "parcel.send"])))

    assert [(use.verb, use.is_first) for use in found.uses] == [("parcel.weigh", True), ("parcel.send", False)]


def test_first_verbs_are_those_of_every_branch_also_inside_a_subprocess() -> None:
    inside = Drawing().start("in").task("inner").task("after").end("out").flow("in", "inner", "after", "out")
    drawing = (
        Drawing()
        .start()
        .gateway("parallel", "split", "join")
        .subprocess("box", inside)
        .task("beside")
        .task("last")
        .end()
    )
    drawing.flow("begin", "split", "box", "join").flow("split", "beside", "join").flow("join", "last", "end")

    found = outline(Resource("drawn.bpmn", drawing.xml()))

    assert {use.element_id for use in found.uses if use.is_first} == {"inner", "beside"}


def test_a_verb_behind_ways_that_meet_again_is_first_once_and_a_loop_ends_the_search() -> None:
    drawing = Drawing().start().gateway("exclusive", "split", "meet").plain("left").plain("right").task("work").end()
    drawing.flow("begin", "split", "left", "meet").flow("split", "right", "meet").flow("meet", "work", "end")
    drawing.flow("meet", "split")

    found = outline(Resource("drawn.bpmn", drawing.xml()))

    assert [(use.element_id, use.is_first) for use in found.uses] == [("work", True)]
