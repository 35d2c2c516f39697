"""The pages of contract files: every field of a verb and of a policy, from the schemas that editors use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.generate.markdown import code, fence, table
from verblint.contracts.json_schema import direct_fields, policy_schema, workflow_fields

ROOT = Path(__file__).parents[2]
_COLUMNS = ("field", "type", "required", "meaning")
_EDITOR = """\
Editors complete and check these files by their [JSON Schema]({schema}). `verbworker init` and `verbworker scaffold`
write the schemas into the project and name them in the first line of each file; `verbworker verbs schemas` renews them.

"""


def contract_page() -> str:
    """Return the page of verb files."""
    example = (ROOT / "verbs" / "kyc" / "kyc.yaml").read_text(encoding="utf-8")
    return (
        "# Contract YAML\n\n"
        "A verb file holds one verb, or several under `verbs`. Every `*.yaml` below the folder of verbs is read, except"
        " `policies.yaml`. A field that is not listed here is refused, with its line.\n\n"
        + _EDITOR.format(schema="../schemas/verbs.schema.json")
        + "## Workflow verbs\n\nA process performs the verb.\n\n"
        + table(_COLUMNS, _rows(workflow_fields()))
        + "## Direct verbs\n\nA Python function performs the verb. Its contract describes it for the linter, which"
        " never imports Python; `verbworker verify` compares the two.\n\n"
        + table(_COLUMNS, _rows(direct_fields()))
        + "## Example\n\nThe contract of the example in the repository:\n\n"
        + fence(example, "yaml")
    )


def policy_page() -> str:
    """Return the page of policy files."""
    example = (ROOT / "verbs" / "policies.yaml").read_text(encoding="utf-8")
    return (
        "# Policies\n\n"
        "A policy says how often and how long a verb is tried. Contracts and verbs refer to it by name. Without one, a"
        " verb has 3 attempts, 60 seconds for each, and delays that double from 1 second up to 60.\n\n"
        "Half of a delay is fixed and half is random, so that retries do not come together.\n\n"
        + _EDITOR.format(schema="../schemas/policies.schema.json")
        + table(_COLUMNS, _rows(policy_schema()))
        + "## Example\n\n"
        + fence(example, "yaml")
    )


def _rows(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str, str]]:
    below = f"{path}." if path else ""
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield _row(f"{below}{name}", field, is_required=name in required)
        yield from _inner_rows(field, f"{below}{name}")


def _inner_rows(field: dict[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows below a field: of a record, of the items of a list, of the values of a mapping."""
    field = _without_null(field)
    yield from _rows(field, path)
    for key, step in (("additionalProperties", "NAME"), ("items", "[]")):
        inner = field.get(key)
        if isinstance(inner, dict) and ("properties" in _without_null(inner) or key == "additionalProperties"):
            place = f"{path}.{step}" if key == "additionalProperties" else f"{path}[]"
            if "properties" not in _without_null(inner):
                yield _row(place, inner, is_required=False)
            yield from _rows(_without_null(inner), place)


def _row(path: str, field: dict[str, Any], *, is_required: bool) -> tuple[str, str, str, str]:
    return code(path), _kind(field), "yes" if is_required else "", field.get("description", "")


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" not in field:
        return field
    inner: dict[str, Any] = field["anyOf"][0]
    return inner


def _kind(field: dict[str, Any]) -> str:
    field = _without_null(field)
    match field:
        case {"enum": words}:
            return " or ".join(code(word) for word in words)
        case {"const": value}:
            return code(value)
        case {"type": "object", "propertyNames": _}:
            return "mapping by name"
        case {"type": "object"}:
            return "mapping"
        case {"type": "array", "items": inner}:
            return f"list: {_kind(inner)}"
        case {"type": "string", "patternErrorMessage": words}:
            return str(words).removeprefix("must be ")
        case {"type": "string"}:
            return "text"
        case {"type": kind, "maximum": most, **rest}:
            least = f"above {rest['exclusiveMinimum']}" if "exclusiveMinimum" in rest else f"{rest['minimum']}"
            return f"{kind}, {least} to {most}"
        case {"type": kind}:
            return str(kind)
    return "anything"
