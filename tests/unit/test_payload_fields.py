"""What can be known of a case's data from its contract and the models of its verbs, and what cannot."""

from typing import Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, model_validator

from tests.support.drawing import Drawing
from tests.support.models import line
from verbworker.contract.model_fields import find_missing_fields
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
