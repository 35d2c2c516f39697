"""A client in another language, generated from the OpenAPI document as the guide shows, against a real server."""

import json
import os
import shutil
from hashlib import sha256

import pytest

from tests.support.apart import run_apart
from tests.support.databases import value
from tests.support.docs_pages import page
from tests.support.docs_terminal import opened_terminal
from tests.support.sessions import trail

KEY = "key-of-the-generated-client"


@pytest.mark.timeout(600)
@pytest.mark.skipif(
    shutil.which("npm") is None and "CI" not in os.environ, reason="needs Node.js, whose npm installs the generator"
)
@pytest.mark.req("TST-15")
def test_a_generated_client_is_compiled_starts_a_case_once_and_reads_it(dsn: str) -> None:
    digest = sha256(KEY.encode()).hexdigest()
    holder = {"name": "shop", "tenant": "default", "sha256": digest, "scopes": ["start", "read"]}
    settings = {
        "VERBWORKER_DSN": dsn,
        "VERBWORKER_ENGINE": "embedded",
        "VERBWORKER_INGRESS_CREDENTIALS": json.dumps({"api_keys": [holder]}),
    }
    guide = page("how-to/generate-a-client.md")
    said = ""
    with trail() as found, opened_terminal(found.folder, {"API_KEY": KEY}, **settings) as terminal:
        terminal.replace("API_URL", f"http://127.0.0.1:{terminal.port('ingress')}")
        terminal.save([block for block in guide.blocks if block.is_file])
        for line in guide.lines:
            said = terminal.type(line)
        again = terminal.type("node collect.mjs")

    told = "SELECT concat_ws(' / ', asked_by, request_key, sentence) FROM verbworker.runbook_entry"
    assert said == again
    assert run_apart(value(dsn, told)) == f"shop / order-17 / {said.removeprefix('executing: ').strip()}"
    assert run_apart(value(dsn, "SELECT count(*) FROM verbworker.runbook_entry")) == 1
