"""Gates in the REPL: a name that is shown is the name that completes."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tests.support.talking import Scripted
from tests.unit.test_repl_formatting import make_gate
from verbworker.repl.session import ReplSession


@pytest.mark.parametrize("before", [0, 19])
async def test_a_gate_is_completed_by_the_name_that_was_shown(before: int) -> None:
    entry_id = uuid4()
    gates = [*(make_gate(uuid4()) for _ in range(before)), make_gate(entry_id, "legal"), make_gate(entry_id, "finance")]

    async def list_gates(limit: int) -> Any:
        return SimpleNamespace(gates=gates[:limit])

    client: Any = SimpleNamespace(gates=list_gates)  # no database is needed for names
    session = ReplSession(client, {}, Scripted(), past=list)
    answer = await session.evaluate("gates")

    shown = [line.split()[0] for line in answer.lines if not line.startswith("and ")]
    assert shown == list(session.takes)[: len(shown)]
