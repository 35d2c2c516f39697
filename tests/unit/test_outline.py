"""What a model uses, and the element templates that a registry gives."""

import json

import pytest

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
