"""How a verb speaks to the provider: one request, one answer, and every doubt is a transient failure."""

import json
import os
from collections.abc import Mapping

from tests.faults.web import request
from verbworker import TransientExternal

ADDRESS = "FAULTS_PROVIDER"


async def call_provider(body: Mapping[str, object]) -> str:
    """Return the provider's receipt; raise `TransientExternal` when it gave none."""
    try:
        status, answer = await request("POST", os.environ[ADDRESS], "/effects", body, timeout=4.0)
    except (OSError, TimeoutError, ValueError) as error:
        raise TransientExternal(f"the provider gave no answer: {type(error).__name__}") from error
    if status != 200:
        raise TransientExternal(f"the provider answered {status}")
    return str(json.loads(answer)["receipt"])
