"""How a failure is told: what an operator needs, and nothing of the payload."""

from uuid import UUID

import pytest

from verbworker.job.outcome import describe_failure


@pytest.mark.req("FAIL-04")
def test_a_failure_says_class_code_cause_verb_entry_and_frame() -> None:
    message = describe_failure(
        "PermanentContract", "SealMismatch", "the hash differs", verb="a.b", entry_id=UUID(int=1), job_key=7
    )

    assert message == (
        "PermanentContract SealMismatch: the hash differs"
        " (verb a.b, entry 00000000-0000-0000-0000-000000000001, frame 7)"
    )


def test_an_entry_that_nobody_knows_is_said_to_be_unknown() -> None:
    assert "entry unknown" in describe_failure("X", "Y", "z", verb="a.b", entry_id=None, job_key=7)
