"""What a model uses, and the element templates that a registry gives."""

import json

import pytest

from tests.support.bpmn import document, process
from tests.support.models import line
from verbs import registry
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Resource
from verbworker.errors import Refused
from verbworker.model.element_templates import SCHEMA, format_file, templates
from verbworker.model.outline import outline, verbs_in


def test_an_outline_has_the_processes_and_the_verbs_they_call() -> None:
    found = outline(Resource("line.bpmn", line("parcel", ["parcel.weigh", "verbworker.compensate", "parcel.send"])))

    assert found.processes == ("parcel",)
    assert [use.verb for use in verbs_in(found.uses)] == ["parcel.weigh", "parcel.send"]


def job(name: str, job_type: str, *more: str) -> str:
    held = f'<zeebe:taskDefinition type="{job_type}"/>{"".join(more)}'
    return f'<serviceTask id="{name}"><extensionElements>{held}</extensionElements></serviceTask>'


def test_a_job_without_a_literal_type_uses_no_verb() -> None:
    content = document(process(job("a", "=kind"), '<sendTask id="b"/>', job("c", "parcel.send")))

    assert [(use.element_id, use.verb) for use in outline(Resource("x.bpmn", content)).uses] == [("c", "parcel.send")]


def test_a_use_has_the_steps_of_its_mapping_without_those_of_others() -> None:
    steps = (
        '<ameide:input source="state.a" target="request.b"/>'
        '<other:input xmlns:other="urn:other" source="x" target="y"/>'
        '<zeebe:output source="=x" target="y"/><ameide:output source="result.c"/>'
    )
    content = document(process(job("a", "parcel.send", f"<ameide:ioMapping>{steps}</ameide:ioMapping>")))

    (use,) = outline(Resource("x.bpmn", content)).uses
    assert use.mapping == (("input", "state.a", "request.b"), ("output", "result.c", ""))


def test_a_file_that_is_no_model_has_no_outline() -> None:
    with pytest.raises(Refused, match=r"odd\.bpmn cannot be read"):
        outline(Resource("odd.bpmn", b"<"))


def test_every_verb_gate_wait_and_timer_of_a_registry_has_one_template() -> None:
    found = templates(registry)

    ids = [str(template["id"]) for template in found]
    assert ids == sorted(set(ids))
    kinds = {name.removeprefix("io.verbworker.").partition(".")[0] for name in ids}
    assert kinds >= {"verb", "gate", "wait"}
    assert {template["$schema"] for template in found} == {SCHEMA}
    assert json.loads(format_file(found)) == found


def test_a_registry_without_compensation_has_no_template_for_it() -> None:
    assert not [one for one in templates(Registry()) if str(one.get("description")).startswith("Undo")]
    assert [one for one in templates(registry) if str(one.get("description")).startswith("Undo")]
