"""What a verb's model says about the data of a case: which fields it has, and which it cannot do without."""

from collections.abc import Collection, Iterator

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo


def find_unknown_step(model: type[BaseModel], field: str) -> tuple[str, list[str]] | None:
    """Return the step of a field's path that a model does not have, with those it has there; None if it may have it."""
    try:
        schema = model.model_json_schema(by_alias=True, mode="serialization")
    except PydanticUserError:
        return None  # it has no schema, so nothing is known of its fields
    here = schema
    for step in field.split("."):
        known = here.get("properties")
        # Open mappings, unions and lists may hold anything.
        if not isinstance(known, dict) or here.get("additionalProperties"):
            return None
        if step not in known:
            return step, [*known]
        here = known[step]
        while "$ref" in here:
            here = schema["$defs"][here["$ref"].rpartition("/")[2]]
    return None


def find_missing_fields(model: type[BaseModel], given: Collection[str]) -> list[str]:
    """Return the required fields that data with these fields cannot fill, as they are called in the data."""
    validators = model.__pydantic_decorators__.model_validators.values()
    if issubclass(model, RootModel) or any(validator.info.mode != "after" for validator in validators):
        return []  # its own code sees the data first and may fill in anything
    missing = []
    for name, info in model.model_fields.items():
        accepted = [*_names_in_data(model, name, info)]
        if info.is_required() and not any(one in given for one in accepted):
            missing.append(accepted[0])
    return missing


def _names_in_data(model: type[BaseModel], name: str, info: FieldInfo) -> Iterator[str]:
    """Yield the names that a field is read from; of a path, its first step."""
    alias = info.validation_alias
    for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
        match choice:
            case AliasPath(path=[str(first), *_]):
                yield first
            case str():
                yield choice
    if alias is None or any(model.model_config.get(key) for key in ("populate_by_name", "validate_by_name")):
        yield name
