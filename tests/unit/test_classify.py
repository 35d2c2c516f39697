"""The failure table, row by row: what becomes of a run after each kind of error."""

from collections.abc import Iterator
from typing import Any

import asyncpg
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from verbworker.contract.policy import DEFAULT_POLICY, Policy
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Verb
from verbworker.errors import (
    Backpressure,
    EngineUnavailable,
    OutcomeUnknown,
    PayloadIntegrityError,
    PermanentBusiness,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TransientExternal,
    TransientInfrastructure,
    WorkerStopping,
)
from verbworker.job.classify import Failed, classify
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded
from verbworker.stores.database import translate_errors

SECRET = "iban DE89 3704"


class Case(BaseModel):
    note: str = ""


class OutOfStock(LookupError):
    """An exception that only the application knows."""


def make_verb(mode: Any = "external", on_unknown: Any = "rerun", errors: tuple[str, ...] | None = None) -> Verb:
    async def work(case: Case) -> Case:
        return case

    verbs = Registry()
    probe = work if on_unknown == "probe" else None
    verbs.verb("shop.charge", mode=mode, on_unknown=on_unknown, probe=probe, errors=errors)(work)
    (verb,) = verbs
    return verb


def make_policy(*non_retryable: str) -> Policy:
    retry = DEFAULT_POLICY.retry.model_copy(update={"non_retryable_error_types": non_retryable})
    return DEFAULT_POLICY.model_copy(update={"retry": retry})


def classified(
    error: Exception,
    verb: Verb | None = None,
    policy: Policy = DEFAULT_POLICY,
    *,
    attempt: int = 1,
    retries_left: int = 3,
    jitter: float = 1.0,
) -> Failed:
    verb = verb or make_verb()
    return classify(error, verb, policy, attempt=attempt, retries_left=retries_left, jitter=jitter)


@pytest.mark.req("FAIL-01", "FAIL-02")
def test_somebody_outside_is_asked_again() -> None:
    outcome = classified(TransientExternal("the provider is away", code="ProviderAway"))

    assert outcome == Retry("TransientExternal", "ProviderAway", "the provider is away", 1.0)


@pytest.mark.req("FAIL-01")
def test_our_own_infrastructure_costs_no_retry() -> None:
    outcome = classified(TransientInfrastructure("the cache is cold", code="CacheCold"), retries_left=1)

    assert outcome == Yielded("CacheCold", "the cache is cold", 1.0)


@pytest.mark.req("FAIL-01")
def test_a_worker_that_stops_gives_its_job_back_at_once() -> None:
    outcome = classified(WorkerStopping("the worker shut down", code="Shutdown"), attempt=3)

    assert outcome == Yielded("Shutdown", "the worker shut down", 0.0)


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize("kind", [StoreUnavailable, StoreConflict, EngineUnavailable, Backpressure])
def test_a_database_or_engine_that_is_away_costs_no_retry(kind: type[Exception]) -> None:
    outcome = classified(kind(f"the database at {SECRET} cannot be reached"), retries_left=1)

    assert outcome == Yielded(kind.__name__, "the database or the engine did not answer", 1.0)


@pytest.mark.req("FAIL-01", "FAIL-03")
def test_a_broken_contract_is_an_incident_at_once() -> None:
    outcome = classified(PermanentContract("the hash differs", code="SealMismatch"))

    assert outcome == Incident("PermanentContract", "SealMismatch", "the hash differs")


@pytest.mark.req("FAIL-03", "PAY-08")
def test_a_foreign_payload_is_an_incident_at_once() -> None:
    outcome = classified(PayloadIntegrityError("the hash differs"))

    assert outcome == Incident("PermanentContract", "PayloadIntegrityError", "the hash differs")


@pytest.mark.req("FAIL-01")
def test_a_business_no_with_a_code_is_thrown() -> None:
    assert classified(PermanentBusiness("closed", code="ACCOUNT_CLOSED")) == Thrown("ACCOUNT_CLOSED", "closed")


@pytest.mark.parametrize("errors", [None, ("ACCOUNT_CLOSED",), ("OTHER", "ACCOUNT_CLOSED")])
def test_a_code_that_the_verb_may_end_with_is_thrown(errors: tuple[str, ...] | None) -> None:
    outcome = classified(PermanentBusiness("closed", code="ACCOUNT_CLOSED"), make_verb(errors=errors))

    assert outcome == Thrown("ACCOUNT_CLOSED", "closed")


@pytest.mark.parametrize(("errors", "declared"), [((), "none"), (("ACCOUNT_CLOSE", "OTHER"), "ACCOUNT_CLOSE, OTHER")])
def test_a_code_that_the_verb_does_not_declare_breaks_its_contract(errors: tuple[str, ...], declared: str) -> None:
    outcome = classified(PermanentBusiness("closed", code="ACCOUNT_CLOSED"), make_verb(errors=errors))

    words = f"closed; shop.charge ended with the code ACCOUNT_CLOSED, which is not in its errors= ({declared})"
    assert outcome == Incident("PermanentContract", "ErrorUndeclared", words)


@pytest.mark.req("FAIL-01", "FAIL-05")
def test_a_business_no_without_a_code_is_an_incident() -> None:
    outcome = classified(PermanentBusiness("closed"))

    assert outcome == Incident("PermanentBusiness", "PermanentBusiness", "closed")


@pytest.mark.req("FAIL-12")
def test_an_exception_nobody_named_is_tried_again() -> None:
    outcome = classified(ZeroDivisionError("division by zero"))

    assert outcome == Retry("UnexpectedError", "ZeroDivisionError", "the verb raised ZeroDivisionError", 1.0)


@pytest.mark.req("FAIL-12")
def test_a_refused_statement_that_is_not_the_verbs_is_told_as_such() -> None:
    outcome = classified(StoreError(f"duplicate key {SECRET}"))

    words = "the database refused a statement that is not the verb's: StoreError"
    assert outcome == Retry("UnexpectedError", "StoreError", words, 1.0)


@pytest.mark.req("FAIL-12")
@pytest.mark.parametrize(
    "error", [ConnectionResetError(), OSError(113, SECRET), httpx.ConnectError(SECRET), httpx.ReadTimeout(SECRET)]
)
def test_an_outside_that_does_not_answer_is_no_bug_of_the_verb(error: Exception) -> None:
    outcome = classified(error)

    assert isinstance(outcome, Retry)
    assert outcome.kind == "TransientExternal"


@pytest.mark.req("FAIL-04")
def test_every_failure_names_the_line_that_raised_it() -> None:
    for error, words in (
        (KeyError(SECRET), "the verb raised KeyError {}"),
        (TransientExternal("away"), "away ({})"),
        (PermanentContract("odd"), "odd ({})"),
    ):
        with pytest.raises(type(error)) as caught:
            raise error
        line = caught.tb.tb_lineno

        place = f"at tests/unit/test_classify.py:{line} in test_every_failure_names_the_line_that_raised_it"
        assert classified(caught.value).message == words.format(place)


@pytest.mark.req("FAIL-05")
@pytest.mark.parametrize("retries_left", [1, 0])
def test_the_last_retry_ends_in_an_incident(retries_left: int) -> None:
    outcome = classified(TransientExternal("away", code="ProviderAway"), retries_left=retries_left)

    assert outcome == Incident("TransientExternal", "ProviderAway", "away; no retry is left")


@pytest.mark.parametrize("on_unknown", ["rerun", "probe"])
@pytest.mark.parametrize("error", [OutcomeUnknown("no answer", code="Timeout"), TimeoutError()])
def test_a_call_without_an_answer_is_repeated_where_that_is_allowed(error: Exception, on_unknown: str) -> None:
    outcome = classified(error, make_verb(on_unknown=on_unknown))

    assert isinstance(outcome, Retry)
    assert (outcome.kind, outcome.code) == ("TransientExternal", "Timeout")


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer", code="Timeout"), TimeoutError()])
def test_a_call_without_an_answer_is_held_where_it_must_not_be_repeated(error: Exception) -> None:
    outcome = classified(error, make_verb(on_unknown="hold"))

    assert isinstance(outcome, Incident)
    assert (outcome.kind, outcome.code) == ("PermanentContract", "OutcomeUnknown")
    assert outcome.message.endswith("; a call may have reached the outside, so it is not repeated")


def test_a_failure_that_is_sure_is_repeated_even_where_unknown_ones_are_held() -> None:
    outcome = classified(TransientExternal("the provider refused the call"), make_verb(on_unknown="hold"))

    assert isinstance(outcome, Retry)


def test_a_transactional_verb_that_took_too_long_is_tried_again() -> None:
    outcome = classified(TimeoutError(), make_verb("transactional"))

    assert outcome == Retry("TransientExternal", "Timeout", "the verb did not end within its time", 1.0)


@pytest.mark.req("POL-02")
@pytest.mark.parametrize("name", ["OutOfStock", f"{__name__}.OutOfStock", "LookupError", "builtins.LookupError"])
def test_a_policy_names_what_is_not_retried_by_class_or_kind_or_module(name: str) -> None:
    outcome = classified(OutOfStock(SECRET), policy=make_policy("ValueError", name))

    words = "the verb raised OutOfStock; the policy does not retry this"
    assert outcome == Incident("PermanentContract", "OutOfStock", words)


@pytest.mark.req("POL-02")
def test_a_policy_may_forbid_to_retry_what_is_deliberate() -> None:
    outcome = classified(TransientExternal("away"), policy=make_policy("TransientExternal"))

    assert isinstance(outcome, Incident)


@pytest.mark.req("POL-02")
@pytest.mark.parametrize("name", ["ValueError", "Stock", "shop.OutOfStock", "object"])
def test_a_name_of_something_else_forbids_nothing(name: str) -> None:
    assert isinstance(classified(OutOfStock(), policy=make_policy(name)), Retry)


@pytest.mark.req("POL-02")
def test_a_policy_cannot_make_our_own_infrastructure_cost_a_retry() -> None:
    assert isinstance(classified(StoreUnavailable("away"), policy=make_policy("StoreUnavailable")), Yielded)


@pytest.mark.req("JOB-09", "FAIL-03")
def test_a_job_of_an_unknown_verb_is_an_incident_at_once() -> None:
    error = PermanentContract("no verb is registered under shop.gone", code="VerbUnknown")
    outcome = classify(error, None, DEFAULT_POLICY, attempt=1, retries_left=3, jitter=0)

    assert outcome == Incident("PermanentContract", "VerbUnknown", "no verb is registered under shop.gone")


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize("error", [StoreUnavailable("away"), TimeoutError()])
def test_a_job_of_an_unknown_verb_survives_a_database_that_is_away(error: Exception) -> None:
    outcome = classify(error, None, DEFAULT_POLICY, attempt=1, retries_left=3, jitter=0)

    assert not isinstance(outcome, Incident)


@pytest.mark.req("POL-06")
@given(attempt=st.integers(1, 200), jitter=st.floats(0, 1))
def test_the_pause_is_the_policys(attempt: int, jitter: float) -> None:
    outcome = classified(TransientExternal("away"), attempt=attempt, jitter=jitter)

    assert isinstance(outcome, Retry)
    assert outcome.delay == DEFAULT_POLICY.delay(attempt, jitter)


STRANGERS = [
    Exception(SECRET),
    ValueError(SECRET),
    OSError(5, SECRET),
    TimeoutError(SECRET),
    StoreError(SECRET),
    StoreUnavailable(SECRET),
    EngineUnavailable(SECRET),
    OutOfStock(SECRET),
    ExceptionGroup(SECRET, [ValueError(SECRET)]),
]


@pytest.mark.req("FAIL-04")
@pytest.mark.parametrize("error", STRANGERS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("on_unknown", ["rerun", "hold"])
@pytest.mark.parametrize("retries_left", [1, 3])
def test_words_of_strangers_never_reach_the_engine(error: Exception, on_unknown: str, retries_left: int) -> None:
    for policy in (DEFAULT_POLICY, make_policy("Exception")):
        outcome = classified(error, make_verb(on_unknown=on_unknown), policy, retries_left=retries_left)

        assert SECRET not in str(outcome)


ODD = "a \x00 b \ud800 c\nd \x1b[31m"


@pytest.mark.req("FAIL-04")
@pytest.mark.parametrize(
    "error",
    [
        TransientExternal(ODD, code=ODD),
        TransientInfrastructure(ODD, code=ODD),
        WorkerStopping(ODD, code=ODD),
        PermanentContract(ODD, code=ODD),
        PermanentBusiness(ODD, code=ODD),
        PermanentBusiness(ODD),
        PermanentContract("x" * 100_000, code="y" * 100_000),
    ],
)
def test_words_can_be_stored_sent_and_shown_anywhere(error: Exception) -> None:
    outcome = classified(error)

    assert outcome.code.isprintable()
    assert outcome.message.isprintable()
    assert len(outcome.code) <= 200
    assert len(outcome.message) <= 1000


@pytest.mark.req("FAIL-04")
def test_words_of_any_language_stay_as_they_are() -> None:
    outcome = classified(PermanentContract("größer als 5 €, 日本", code="Größe"))

    assert (outcome.code, outcome.message) == ("Größe", "größer als 5 €, 日本")


class LongText(str):
    """A text that counts how many of its characters are read one by one, or word by word."""

    read = 0

    def __str__(self) -> str:
        return self

    def __iter__(self) -> Iterator[str]:
        self.read = len(self)
        return super().__iter__()

    def split(self, *how: Any) -> list[str]:
        self.read = len(self)
        return super().split(*how)


@pytest.mark.parametrize("kind", [PermanentBusiness, PermanentContract, TransientExternal, TransientInfrastructure])
def test_an_error_text_of_megabytes_is_cut_before_anything_is_done_with_it(kind: Any) -> None:
    text, code = LongText("no answer\n" * 300_000), LongText("Refused " * 300_000)

    outcome = classified(kind(text, code=code))

    assert (text.read, code.read) == (0, 0)
    assert outcome.message.startswith("no answer no answer")
    assert len(outcome.message) <= 1000


def test_a_long_reason_of_postgres_is_cut_before_anything_is_done_with_it() -> None:
    text = LongText("no\nspace " * 300_000)

    with pytest.raises(StoreError) as raised, translate_errors():
        raise asyncpg.RaiseError(text)

    assert text.read == 0
    assert str(raised.value).startswith("no space no space")
    assert len(str(raised.value)) <= 4000
