"""One tenant sends large bodies at the same time: their size is charged before they are read, and not after."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.apart import run_apart
from tests.support.ingress_process import ENGINE_ID, OTHER_KEY, envelope, ingress_process, write_app
from tests.support.mail import deploy_model

pytestmark = pytest.mark.attack("HTTP")

SENDERS = 24


def large(number: int) -> bytes:
    body = json.dumps(envelope(message_id=f"m-{number}", payload={"a": [0.5] * 40_000})).encode()
    return body + b" " * (1024 * 1024 - 64 - len(body))


@pytest.mark.parametrize("way", ["with its length", "in chunks"])
def test_a_burst_of_large_bodies_is_admitted_by_its_bytes(tmp_path: Path, dsn: str, way: str) -> None:
    run_apart(deploy_model(dsn, ENGINE_ID))
    write_app(tmp_path)
    # A rate that refills nothing while the test runs: a burst pays for three bodies of 32 requests each.
    rate = {"VERBWORKER_INGRESS_RATE": "0.001", "VERBWORKER_INGRESS_BURST": "100"}
    with (
        ingress_process(tmp_path, dsn, VERBWORKER_ENGINE="embedded", **rate) as ingress,
        ThreadPoolExecutor(SENDERS) as senders,
    ):

        def send(number: int) -> int:
            body = large(number)
            if way == "with its length":
                return ingress.post(body).status
            pieces = [body[place : place + 65_536] for place in range(0, len(body), 65_536)]
            return ingress.post(body, chunks=pieces).status

        answers = Counter(senders.map(send, range(SENDERS)))
        other = ingress.post(envelope(tenant_id="globex", message_id="m-small"), key=OTHER_KEY).status

    assert other == 202
    # In chunks, several share what is left and none may be whole.
    assert answers[202] <= 4, answers
    assert answers[202] == 4 or way == "in chunks"
    assert answers[429] == SENDERS - answers[202]
