"""What engines are given for a completed job, and the process variables that they make of it."""

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import JobCommands, SameDatabase
from verbworker.engine.variables import variables_of
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.job.outcome import NO_RESULT, PLAIN_SEAL, JobResult


@pytest.mark.req("ADP-08", "PAY-01", "PAY-02", "PAY-18", "ORC-08")
@pytest.mark.parametrize(
    ("result", "variables"),
    [
        (NO_RESULT, {}),
        (JobResult(flags={"orch_ok": True}), {"orch_ok": True}),
        (JobResult(correlation={"corr_case": "c-1"}), {"corr_case": "c-1"}),
        (
            JobResult('{"ä":"1"}'.encode(), "sha256:0", {"orch_n": 2}, {"corr_case": "c-1"}),
            {"domain_payload": '{"ä":"1"}', "domain_payload_hash": "sha256:0", "orch_n": 2, "corr_case": "c-1"},
        ),
        (JobResult(b'{"a":[1,null],"domain_payload":7}', PLAIN_SEAL), {"a": [1, None], "domain_payload": 7}),
        (JobResult(b"{}", PLAIN_SEAL), {}),
    ],
)
def test_a_result_becomes_these_variables_and_no_others(result: JobResult, variables: dict[str, object]) -> None:
    assert variables_of(result) == variables


@pytest.mark.req("ADP-08", "PAY-18")
@pytest.mark.parametrize(
    "command",
    [
        JobCommands.complete,
        SameDatabase.prepare_completion,
        EmbeddedEngine.complete,
        EmbeddedEngine.prepare_completion,
        InlineEngine.complete,
        ZeebeEngine.complete,
    ],
    ids=lambda command: command.__qualname__,
)
def test_a_job_is_completed_with_a_result_and_not_with_a_mapping(command: Callable[..., Any]) -> None:
    taken = {name: kind for name, kind in get_type_hints(command).items() if name != "return"}

    assert {name: taken[name] for name in taken if name != "lease_token"} == {"job_key": int, "result": JobResult}
