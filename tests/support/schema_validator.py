"""JSON Schema, draft 7, by the reference implementation of Python."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft7Validator


class SchemaValidator:
    """A schema that documents are held to; an invalid schema is refused at once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        Draft7Validator.check_schema(schema)
        self._validator = Draft7Validator(schema)

    def problems(self, content: object) -> list[str]:
        """What is wrong with a document, one sentence each."""
        return [problem.message for problem in self._validator.iter_errors(content)]
