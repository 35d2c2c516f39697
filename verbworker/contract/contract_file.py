"""A YAML file of contracts: read strictly, validated by pydantic, every problem reported with its line."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from verblint.contracts.section import ContractFault
from verblint.contracts.strict_yaml import Path as Steps
from verblint.contracts.strict_yaml import YamlDocument, YamlError, load, name_of
from verbworker.errors import ContractInvalid


class ContractText(BaseModel):
    """A part of a contract as people write it: no unknown fields, no coercion, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Like:
    """The syntax of a text in a contract: a pattern for tools and a description for people."""

    expression: str
    words: str

    def check(self, text: str) -> str:
        """Return the text if all of it matches."""
        if not re.fullmatch(self.expression, text):
            raise ValueError(f"{text[:100]!a} is not {self.words}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.expression})$", "description": self.words}


Shape = TypeVar("Shape", bound=ContractText)

_SENTENCES = {
    "missing": "is missing",
    "string_type": "must be a text",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
}


def read(file: Path) -> tuple[YamlDocument | None, list[ContractFault]]:
    """Return the document in a file, or the reasons why it cannot be read."""
    try:
        return load(file.read_bytes(), str(file)), []
    except YamlError as error:
        return None, [ContractFault.of(error)]
    except OSError as error:
        return None, [ContractFault(str(file), 1, 1, "", f"cannot be read: {error.strerror}")]


def part(document: YamlDocument, at: Steps) -> Any:
    """Return the value at a path in a document."""
    value: Any = document.value
    for step in at:
        value = value[step]
    return value


def validate(shape: type[Shape], document: YamlDocument, at: Steps = ()) -> tuple[Shape | None, list[ContractFault]]:
    """Return the part of a document at `at` as a model, or every reason why it does not fit."""
    try:
        # In JSON mode, strict pydantic accepts a list for a tuple and still coerces nothing.
        return shape.model_validate_json(orjson.dumps(part(document, at))), []
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        return None, [_fault(shape, document, at, problem) for problem in problems]


def fault(document: YamlDocument, steps: Steps, message: str) -> ContractFault:
    """Return a problem with one field, at the line where it is written."""
    return ContractFault(document.file, *document.where(steps), name_of(steps), message)


def invalid(faults: Iterable[ContractFault]) -> ContractInvalid:
    """Return an error with every problem, one per line, in file order."""
    ordered = sorted(faults, key=lambda fault: (fault.file, fault.line, fault.column))
    return ContractInvalid("\n".join(map(str, ordered)))


def _fault(shape: type[ContractText], document: YamlDocument, at: Steps, problem: Any) -> ContractFault:
    steps: Steps = (*at, *problem["loc"])
    if problem["type"] != "missing":
        # After the field's path pydantic adds inner steps, such as the member of a union.
        while steps not in document.positions:
            steps = steps[:-1]
    return fault(document, steps, _sentence(shape, problem))


def _sentence(shape: type[ContractText], problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        near = get_close_matches(str(problem["loc"][-1]), _field_names(shape, problem["loc"][:-1]), 1)
        return f"unknown field; did you mean {near[0]}?" if near else "unknown field"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if kind == "value_error":
        return str(context["error"])
    message: str = problem["msg"]
    return _SENTENCES.get(kind, message.replace("Input should", "must").replace("String should", "must"))


def _field_names(shape: type[ContractText], steps: Iterable[str | int]) -> list[str]:
    """Return the names of the fields allowed at a path below a shape."""
    schema = shape.model_json_schema()
    here: Any = schema
    for step in steps:
        here = here.get("items") if isinstance(step, int) else _member(here, step)
        here = next(iter(here.get("anyOf", ())), here)  # an optional part is itself or null
        here = schema["$defs"][here["$ref"].rpartition("/")[2]] if "$ref" in here else here
    return list(here["properties"])


def _member(here: Any, step: str) -> Any:
    return here["properties"][step] if "properties" in here else next(iter(here["patternProperties"].values()))
