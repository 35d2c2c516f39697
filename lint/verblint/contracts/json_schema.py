"""JSON Schemas of the contract files, for editors: made from the shapes that read the files.

They accept every valid file. What must hold between fields is left to the linter, except where a field's type depends
on its neighbour.
"""

from collections.abc import Mapping

from verblint.contracts.contract import MAX_FLAG_TEXT, MAX_INTEGER
from verblint.contracts.field_shapes import JsonSchema
from verblint.contracts.field_texts import POLICY_TEXTS, VERB_TEXTS
from verblint.contracts.fields import DIRECT, WORKFLOW, policy_file

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The version that editors know without asking the network."""

_VALUES_OF_ENUM = {
    "if": {"properties": {"type": {"const": "enum"}}, "required": ["type"]},
    "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
    "else": {"properties": {"values": {"maxItems": 0}}},
}
_TEXT_OF_FLAG: JsonSchema = {"type": "string", "maxLength": MAX_FLAG_TEXT}
_INITIALS: dict[str, JsonSchema] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER},
    "string": _TEXT_OF_FLAG,
    "enum": _TEXT_OF_FLAG,
}


def verb_schema() -> JsonSchema:
    """Return the schema of a verb file: one verb, or several under `verbs`."""
    one = {
        "if": {"properties": {"strategy": {"const": "workflow"}}, "required": ["strategy"]},
        "then": {"$ref": "#/definitions/workflow"},
        "else": {"$ref": "#/definitions/direct"},
    }
    several = {
        "type": "object",
        "properties": {"verbs": {"type": "array", "items": {"$ref": "#/definitions/verb"}}},
        "required": ["verbs"],
        "additionalProperties": False,
    }
    return {
        "$schema": DRAFT,
        "title": "Verbs of a domain: one, or several under `verbs`",
        "type": "object",
        "if": {"required": ["verbs"]},
        "then": several,
        "else": {"$ref": "#/definitions/verb"},
        "definitions": {"verb": one, "workflow": workflow_fields(), "direct": direct_fields()},
    }


def workflow_fields() -> JsonSchema:
    """Return the schema of a workflow verb, with a text for every field."""
    return _with_texts(_with_neighbours(WORKFLOW.schema()), VERB_TEXTS)


def direct_fields() -> JsonSchema:
    """Return the schema of a direct verb, with a text for every field."""
    return _with_texts(_with_neighbours(DIRECT.schema()), VERB_TEXTS)


def policy_schema() -> JsonSchema:
    """Return the schema of a policy file."""
    shape = policy_file(lambda _: None, is_exact=False)
    return {"$schema": DRAFT, "title": "Policies", **_with_texts(shape.schema(), POLICY_TEXTS)}


SCHEMAS = {"policies.schema.json": policy_schema, "verbs.schema.json": verb_schema}
"""The published schemas by file name."""

FOLDER = ".schemas"
"""Where a project keeps them, so that editors need no network."""


def schema_files() -> dict[str, str]:
    """Return the text of every schema by its path in a project."""
    from json import dumps

    return {f"{FOLDER}/{name}": dumps(make(), indent=2) + "\n" for name, make in SCHEMAS.items()}


def _with_neighbours(verb: JsonSchema) -> JsonSchema:
    fields = verb["properties"]
    argument = fields["args"]["additionalProperties"]
    argument.update(_VALUES_OF_ENUM)
    flag = fields.get("flags", {}).get("additionalProperties")
    if flag is not None:
        flag["allOf"] = [_VALUES_OF_ENUM, *(_initial_of(name, initial) for name, initial in _INITIALS.items())]
    return verb


def _initial_of(flag_type: str, initial: JsonSchema) -> JsonSchema:
    return {
        "if": {"properties": {"type": {"const": flag_type}}, "required": ["type"]},
        "then": {"properties": {"initial": initial}},
    }


def _with_texts(schema: JsonSchema, texts: Mapping[str, str], path: str = "") -> JsonSchema:
    """Return the schema with the description of every field that has one, however deep."""
    described = {"description": texts[path], **schema} if path in texts else dict(schema)
    if "anyOf" in schema:
        described["anyOf"] = [_with_texts(one, texts, path) for one in schema["anyOf"]]
        return described
    below = f"{path}." if path else ""
    if "properties" in schema:
        described["properties"] = {
            name: _with_texts(inner, texts, f"{below}{name}") for name, inner in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            described[key] = _with_texts(schema[key], texts, f"{below}*")
    return described
