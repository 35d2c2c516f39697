"""The arguments that each verb of a registry takes, as a user at a terminal needs to know them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from verblint.contracts.contract import Sentences
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb

Kind = Literal["string", "integer", "number", "boolean", "enum", "other"]
Misfit = Callable[[object], str | None]

_WORDS: Mapping[Kind, str] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "other": "value",
}
_PLAIN: Mapping[str, Kind] = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean"}


def _anything(_value: object) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ArgumentSlot:
    """One argument: its name, what fits it, and how to ask for it."""

    name: str
    kind: Kind
    question: str
    is_required: bool = False
    values: tuple[str, ...] = ()
    note: str = ""
    misfit: Misfit = _anything

    @property
    def takes(self) -> str:
        """What fits it, in a few words."""
        return " | ".join(self.values) if self.kind == "enum" else _WORDS[self.kind]

    @property
    def hint(self) -> str:
        """What fits it, whether it is required, and what it means."""
        needed = "required" if self.is_required else "optional"
        return f"{self.takes}, {needed}" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class VerbShape:
    """One verb: its sentence and its arguments. It hides how the verb is carried out."""

    name: str
    says: Callable[[Mapping[str, object]], str]
    summary: str
    step: str
    slots: tuple[ArgumentSlot, ...] = ()

    def slot(self, name: str) -> ArgumentSlot | None:
        """Return the argument of that name; underscores and hyphens are equal."""
        return next((slot for slot in self.slots if slot.name == name.replace("_", "-")), None)

    def playback(self, args: Mapping[str, object]) -> str:
        """Describe what is about to happen in a sentence; arguments it does not mention follow in brackets."""
        rest = [f"{name} {_format_value(value)}" for name, value in args.items() if f"{{{name}}}" not in self.step]
        return self.says(args).rstrip(". ") + (f" ({', '.join(rest)})" if rest else "")

    @property
    def hint(self) -> str:
        """Every argument in one line, required ones first."""
        ordered = sorted(self.slots, key=lambda slot: not slot.is_required)
        return "  ".join(f":{slot.name} {slot.takes}{'' if slot.is_required else ' (optional)'}" for slot in ordered)


Shapes = Mapping[str, VerbShape]


def shapes_of(registry: Registry) -> dict[str, VerbShape]:
    """Return every verb of a registry that people may start, by name."""
    found = [_workflow(registry, verb) for verb in registry.workflows.values()]
    found += [_direct(registry, verb) for verb in registry if not registry.is_internal(verb.name)]
    return {shape.name: shape for shape in sorted(found, key=lambda shape: shape.name)}


def _workflow(registry: Registry, verb: WorkflowVerb) -> VerbShape:
    sentences = verb.sentences
    slots = tuple(
        ArgumentSlot(
            name=name,
            kind=_PLAIN.get(argument.type, "enum"),
            question=_question(sentences, name, argument.summary or ""),
            is_required=argument.required,
            values=argument.values,
            note=argument.summary or "",
            misfit=partial(verb.misfit, name),
        )
        for name, argument in verb.args.items()
    )
    step = verb.name if sentences is None else sentences.step
    return VerbShape(verb.name, partial(registry.say, verb.name), verb.summary or _strip_braces(step), step, slots)


def _direct(registry: Registry, verb: Verb) -> VerbShape:
    sentences = registry.sentences_of(verb.name)
    step = verb.sentence if sentences is None else sentences.step
    return VerbShape(
        verb.name, partial(registry.say, verb.name), _strip_braces(step), step, tuple(_fields(verb.model, sentences))
    )


def _strip_braces(step: str) -> str:
    """Return the sentence with the arguments' names in place of their values."""
    return step.replace("{", "").replace("}", "")


def _question(sentences: Sentences | None, name: str, note: str) -> str:
    asked = None if sentences is None else sentences.clarify.get(name)
    return asked or (f"Which {name} ({note})?" if note else f"Which {name}?")


def _fields(model: type[BaseModel], sentences: Sentences | None) -> Iterator[ArgumentSlot]:
    """Derive the arguments from a verb's model."""
    try:
        schema = model.model_json_schema()
    except PydanticUserError:
        return  # a type that JSON schema cannot express: the verb can be started, only without hints
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    for field, part in schema.get("properties", {}).items():
        name = field.replace("_", "-")
        kind, values = _kind(part, schema.get("$defs", {}))
        note = str(part.get("description", ""))
        yield ArgumentSlot(
            name=name,
            kind=kind,
            question=_question(sentences, name, note),
            is_required=field in schema.get("required", ()),
            values=values,
            note=note,
            misfit=_misfit_of(fields[field]) if field in fields else _anything,
        )


def _kind(part: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of a JSON schema part, and its values if they are enumerated."""
    if "$ref" in part:
        return _kind(named.get(str(part["$ref"]).rpartition("/")[2], {}), named)
    values = part.get("enum", [part["const"]] if "const" in part else [])
    if values:
        return ("enum", tuple(values)) if all(isinstance(value, str) for value in values) else ("other", ())
    choices = [choice for choice in part.get("anyOf", part.get("allOf", [])) if choice.get("type") != "null"]
    if len(choices) == 1:
        return _kind(choices[0], named)
    return _PLAIN.get(str(part.get("type")), "other"), ()


def _misfit_of(info: FieldInfo) -> Misfit:
    whole: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(whole)

    def misfit(value: object) -> str | None:
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"]
            return f"does not fit: {problem[:1].lower()}{problem[1:]}"
        return None

    return misfit


def _format_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "nothing"
        case _:
            return str(value)
