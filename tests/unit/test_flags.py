"""Flags and correlation keys: what a verb may set."""

from typing import Any

import pytest

from tests.support.flags import flag_contract
from verblint.contracts.contract import Flag, FlagType
from verblint.contracts.syntax import FLAG_NAME
from verbworker.contract.flags import check_correlation
from verbworker.errors import PermanentContract

CONTRACT = flag_contract(
    Flag("orch_docs_received", FlagType.BOOLEAN, False),
    Flag("orch_rounds", FlagType.INTEGER, 0),
    Flag("orch_due", FlagType.STRING, "P30D"),
    Flag("orch_review", FlagType.ENUM, "pending", ("pending", "approved")),
)


def refusal(flags: dict[str, Any]) -> PermanentContract:
    with pytest.raises(PermanentContract) as caught:
        CONTRACT.check(flags)
    return caught.value


@pytest.mark.req("ORC-06", "REG-08")
def test_every_declared_flag_has_a_value_from_the_start() -> None:
    assert CONTRACT.initial() == {
        "orch_docs_received": False,
        "orch_rounds": 0,
        "orch_due": "P30D",
        "orch_review": "pending",
    }


@pytest.mark.req("ORC-02", "ORC-07", "X-32")
def test_flags_that_fit_their_contract_pass() -> None:
    CONTRACT.check({})

    CONTRACT.check({"orch_docs_received": True, "orch_rounds": -(2**53) + 1, "orch_due": "", "orch_review": "approved"})

    assert refusal({"orch_rounds": -(2**53)}).code == "FlagOutOfRange"


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ({"orch_new": True}, "FlagUndeclared"),
        ({"domain_payload": "x"}, "FlagUndeclared"),
        ({"vw_entry_id": "x"}, "FlagUndeclared"),
        ({"orch_docs_received": 1}, "FlagTypeWrong"),
        ({"orch_docs_received": "true"}, "FlagTypeWrong"),
        ({"orch_docs_received": None}, "FlagTypeWrong"),
        ({"orch_rounds": True}, "FlagTypeWrong"),
        ({"orch_rounds": 1.0}, "FlagTypeWrong"),
        ({"orch_rounds": 2**53}, "FlagOutOfRange"),
        ({"orch_due": 5}, "FlagTypeWrong"),
        ({"orch_due": "x" * 1001}, "TextTooLong"),
        ({"orch_due": "\ud800"}, "LoneSurrogate"),
        ({"orch_due": "P1D\0"}, "NulCharacter"),
        ({"orch_review": "Approved"}, "FlagValueUnknown"),
        ({"orch_review": ["approved"]}, "FlagTypeWrong"),
    ],
)
@pytest.mark.req("ORC-01", "ORC-02", "ORC-08", "ORC-09")
def test_a_flag_outside_its_contract_is_a_contract_failure(flags: dict[str, Any], code: str) -> None:
    assert refusal(flags).code == code


@pytest.mark.req("ORC-09")
def test_each_refusal_can_be_read() -> None:
    assert str(refusal({"orch_x": 1})) == "the flag 'orch_x' is not in the workflow verb's contract"
    assert str(refusal({"orch_rounds": True})) == "the flag orch_rounds must be of type integer, not bool"
    assert str(refusal({"orch_review": "no"})) == "the flag orch_review must be one of pending, approved"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (("orch_a", FlagType.ENUM, "x"), "only an enum, has values"),
        (("orch_a", FlagType.STRING, "x", ("x",)), "only an enum, has values"),
        (("orch_a", FlagType.ENUM, "x", ("x", "x")), "listed twice"),
        (("orch_a", FlagType.ENUM, "y", ("x",)), "must be one of x"),
        (("orch_a", FlagType.INTEGER, True), "must be of type integer"),
    ],
)
@pytest.mark.req("ORC-01", "ORC-06", "X-01")
def test_a_flag_that_is_declared_wrongly_is_refused(flag: tuple[Any, ...], words: str) -> None:
    problem = Flag(*flag).find_problem()

    assert problem is not None
    assert words in problem[1]


@pytest.mark.parametrize("name", ["docs", "orch.docs", "orch_Docs", "orch_docs_"])
@pytest.mark.req("ORC-01", "ORC-06", "X-01")
def test_a_flag_has_a_name_of_its_own_kind(name: str) -> None:
    assert not FLAG_NAME.fits(name)


@pytest.mark.req("X-30")
def test_correlation_keys_are_written_once() -> None:
    existing = {"corr_documents": "c-1"}

    check_correlation(existing, {"corr_documents": "c-1", "corr_review": "r-1"})

    with pytest.raises(PermanentContract, match="corr_documents was written before") as caught:
        check_correlation(existing, {"corr_documents": "c-2"})
    assert caught.value.code == "CorrelationChanged"


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"documents": "x"}, "CorrelationName"),
        ({"corr_Documents": "x"}, "CorrelationName"),
        ({"orch_x": "x"}, "CorrelationName"),
        ({"corr_other": "x"}, "CorrelationUndeclared"),
        ({"corr_documents": ""}, "CorrelationType"),
        ({"corr_documents": "  "}, "CorrelationType"),
        ({"corr_documents": 5}, "CorrelationType"),
        ({"corr_documents": None}, "CorrelationType"),
        ({"corr_documents": "x" * 256}, "TextTooLong"),
        ({"corr_documents": "\udc00"}, "LoneSurrogate"),
    ],
)
@pytest.mark.req("X-30")
def test_a_malformed_correlation_key_is_a_contract_failure(new: dict[str, Any], code: str) -> None:
    with pytest.raises(PermanentContract) as caught:
        check_correlation({}, new, declared=("corr_documents",))

    assert caught.value.code == code
