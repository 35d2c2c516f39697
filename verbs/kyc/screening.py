"""Sanctions screening: asked of a provider outside, once per step, however often we have to ask."""

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

from verbs.kyc.case import KycCase, Screening
from verbworker import Call, PermanentBusiness, PermanentContract, Registry, Result, TransientExternal

URL = "KYC_SCREENING_URL"

verbs = Registry()


@verbs.verb(
    "kyc.screen-sanctions",
    mode="external",
    on_unknown="rerun",
    writes=("screening",),
    errors=("SANCTIONS_HIT",),
    policy="patient",
)
def screen_sanctions(case: KycCase, call: Call) -> Result[KycCase]:
    """Have the entity's name looked up in the sanctions lists; the provider knows a repeated question by its key."""
    found = _asked({"entity": case.entity}, call)
    try:
        hit, screening = bool(found["hit"]), Screening(reference=found["reference"], lists=found["lists"])
    except (KeyError, ValueError) as error:
        raise PermanentContract("the provider's answer cannot be read", code="ScreeningAnswer") from error
    if hit:
        raise PermanentBusiness(f"the entity is on a sanctions list ({screening.reference})", code="SANCTIONS_HIT")
    return Result(case.model_copy(update={"screening": screening}))


def _asked(question: dict[str, str], call: Call) -> dict[str, Any]:
    address = urlsplit(os.environ.get(URL, ""))
    if not address.netloc:
        raise PermanentContract(f"nobody screens: set {URL} to the provider's address", code="ScreeningAddress")
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=max(1.0, min(10.0, call.remaining().total_seconds())))
    headers = {"Content-Type": "application/json", "Idempotency-Key": call.idempotency_key}
    try:
        connection.request("POST", address.path or "/", json.dumps(question), headers)
        response = connection.getresponse()
        status, text = response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise TransientExternal("the screening provider does not answer", code="ScreeningSilent") from error
    finally:
        connection.close()
    if status >= 500 or status == 429:
        raise TransientExternal(f"the screening provider answered {status}", code="ScreeningBusy")
    if status >= 400:
        raise PermanentContract(f"the screening provider refused with {status}", code="ScreeningRefused")
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise PermanentContract("the provider's answer is no JSON", code="ScreeningAnswer") from error
    if not isinstance(answer, dict):
        raise PermanentContract("the provider's answer is no object", code="ScreeningAnswer")
    return answer
