"""Our values as Zeebe's messages, and Zeebe's messages as our values."""

import logging

import orjson
import pytest
from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.protocol import Ask, Signal, Start
from verbworker.engine.zeebe import wire
from verbworker.errors import CommandInvalid

ASK = Ask(type="kyc.check", worker="w", timeout_ms=60_000, variables=("domain_payload",))


def told(**changes: object) -> pb.ActivatedJob:
    fields: dict[str, object] = {
        "key": 7,
        "type": "kyc.check",
        "retries": 3,
        "deadline": 1_700_000_060_000,
        "variables": '{"orch_ok":true}',
        "customHeaders": '{"team":"risk"}',
        "tenantId": "<default>",
    }
    return pb.ActivatedJob(**{**fields, **changes})  # type: ignore[arg-type]  # a builder of any field


def test_a_job_knows_when_it_was_activated() -> None:
    assert wire.job(told(), 60_000).activated_ms == 1_700_000_000_000


def test_a_job_carries_its_variables_and_headers() -> None:
    job = wire.job(told(), 60_000)

    assert (job.variables, job.headers) == ({"orch_ok": True}, {"team": "risk"})


def test_an_opaque_string_is_read_as_it_was_written() -> None:
    text = '{"a":1.0,"b":"\\u0000 ☃ 𝄞"}'
    job = wire.job(told(variables=orjson.dumps({"domain_payload": text}).decode()), 60_000)

    assert job.variables["domain_payload"] == text


@pytest.mark.parametrize("text", ["[1]", "nonsense", "null", '"text"', "[" * 3000, '{"a":1} x'])
def test_a_job_that_cannot_be_read_comes_without_variables_and_is_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        job = wire.job(told(variables=text), 60_000)

    assert job.variables == {}
    assert [record.__dict__["job_key"] for record in caplog.records] == [7]


def test_a_poll_without_a_wait_says_so() -> None:
    requests = [wire.poll(ASK, (), 5, wait_ms) for wait_ms in (-1, 0, 2500)]

    assert [request.requestTimeout for request in requests] == [-1, -1, 2500]


def test_a_poll_asks_for_the_tenants_of_the_job_type_or_of_the_connection() -> None:
    own = Ask(**{**_fields(ASK), "tenant_ids": ("acme",)})  # type: ignore[arg-type]  # the fields of an Ask

    assert list(wire.poll(own, ("other",), 5, 0).tenantIds) == ["acme"]
    assert list(wire.poll(ASK, ("other",), 5, 0).tenantIds) == ["other"]
    assert list(wire.subscription(ASK, ("other",)).tenantIds) == ["other"]


def test_a_definition_key_leaves_no_choice_of_version() -> None:
    request = wire.creation(Start("onboarding", {}, version=3, definition_key=99), "")

    assert (request.processDefinitionKey, request.bpmnProcessId, request.version) == (99, "", 0)


def test_a_process_id_goes_with_its_version() -> None:
    request = wire.creation(Start("onboarding", {"orch_ok": False}), "acme")

    assert (request.bpmnProcessId, request.version, request.tenantId) == ("onboarding", -1, "acme")
    assert request.variables == '{"orch_ok":false}'


def test_a_signal_keeps_its_own_tenant() -> None:
    signal = Signal("docs", "case-1", "m-1", 60_000, {}, tenant_id="acme")

    assert wire.publication(signal, "other").tenantId == "acme"


@pytest.mark.parametrize("value", [object(), 2**64, "\ud800", {1: 2}, b"bytes"])
def test_variables_that_are_not_json_are_refused_without_repeating_them(value: object) -> None:
    with pytest.raises(CommandInvalid, match="cannot be written as JSON"):
        wire.text_of({"secret": value})


@pytest.mark.parametrize(
    "fields", [{"jobKey": 2**63}, {"retries": 2**31}, {"errorMessage": "\ud800"}, {"jobKey": "seven"}]
)
def test_a_value_that_zeebe_has_no_room_for_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(CommandInvalid, match="FailJobRequest cannot be built"):
        wire.message(pb.FailJobRequest, **fields)


@pytest.mark.req("FAIL-04")
def test_a_long_error_message_is_cut_and_a_short_one_is_kept() -> None:
    assert len(wire.cut("x" * 100_000)) == wire.LONGEST_MESSAGE
    assert wire.cut("the registry did not answer") == "the registry did not answer"


def test_an_error_message_is_always_text_that_can_be_sent() -> None:
    assert wire.message(pb.FailJobRequest, errorMessage=wire.cut("a\ud800b")).errorMessage == "a?b"


def test_only_the_processes_of_a_deployment_are_told() -> None:
    answer = pb.DeployResourceResponse(
        deployments=[
            pb.Deployment(form=pb.FormMetadata(formId="f")),
            pb.Deployment(process=pb.ProcessMetadata(bpmnProcessId="p", version=2, processDefinitionKey=9)),
        ]
    )

    assert [(one.process_id, one.version, one.definition_key) for one in wire.read_deployments(answer)] == [("p", 2, 9)]


def _fields(ask: Ask) -> dict[str, object]:
    return {name: getattr(ask, name) for name in ("type", "worker", "timeout_ms", "variables")}
