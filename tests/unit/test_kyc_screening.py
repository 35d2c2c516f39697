"""The example's external verb against a provider that really listens."""

from collections.abc import Iterator

import pytest

from tests.support.kyc import make_call, make_case
from tests.support.kyc_provider import Provider, serve
from tests.support.ports import LOOPBACK, free_ports
from verbs.kyc.screening import URL, screen_sanctions
from verbworker import Failure, PermanentBusiness, PermanentContract, TransientExternal


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with serve() as provider:
        monkeypatch.setenv(URL, provider.url)
        yield provider


def test_a_screened_name_carries_the_providers_number(provider: Provider) -> None:
    result = screen_sanctions(make_case(), make_call())

    assert result.case.screening is not None
    assert (result.case.screening.reference, result.case.screening.lists) == ("S-1", 7)


def test_asking_again_under_one_key_is_one_screening(provider: Provider) -> None:
    first, second = (screen_sanctions(make_case(), make_call(idempotency_key="k-1")) for _ in range(2))

    assert first == second
    assert provider.questions == [("k-1", "Allianz GmbH")] * 2
    assert list(provider.screenings) == ["k-1"]


def test_a_listed_name_is_a_business_error_that_a_model_can_catch(provider: Provider) -> None:
    provider.listed.add("Allianz GmbH")

    with pytest.raises(PermanentBusiness) as caught:
        screen_sanctions(make_case(), make_call())

    assert caught.value.thrown == "SANCTIONS_HIT"


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ((500, b""), TransientExternal, "ScreeningBusy"),
        ((503, b""), TransientExternal, "ScreeningBusy"),
        ((429, b""), TransientExternal, "ScreeningBusy"),
        ((400, b""), PermanentContract, "ScreeningRefused"),
        ((401, b""), PermanentContract, "ScreeningRefused"),
        ((200, b"<html>"), PermanentContract, "ScreeningAnswer"),
        ((200, b"[]"), PermanentContract, "ScreeningAnswer"),
        ((200, b'{"hit": false}'), PermanentContract, "ScreeningAnswer"),
        ((200, b'{"hit": false, "reference": [], "lists": 7}'), PermanentContract, "ScreeningAnswer"),
    ],
)
def test_each_odd_answer_has_its_class(
    provider: Provider, answer: tuple[int, bytes], kind: type[Failure], code: str
) -> None:
    provider.answers.append(answer)

    with pytest.raises(kind) as caught:
        screen_sanctions(make_case(), make_call())

    assert caught.value.code == code


def test_a_provider_that_is_not_there_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv(URL, f"http://{LOOPBACK}:{port}/")

    with pytest.raises(TransientExternal) as caught:
        screen_sanctions(make_case(), make_call())

    assert caught.value.code == "ScreeningSilent"


def test_a_missing_address_is_for_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)

    with pytest.raises(PermanentContract) as caught:
        screen_sanctions(make_case(), make_call())

    assert caught.value.code == "ScreeningAddress"
