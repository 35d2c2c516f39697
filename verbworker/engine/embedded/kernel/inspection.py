"""What people ask of an instance: where its tokens are, and why they stop."""

import re
from datetime import UTC, datetime

from verbworker.engine.embedded.kernel.definition import Definition
from verbworker.engine.embedded.kernel.state import State, TokenWait
from verbworker.engine.protocol import ActiveElement, EngineIncident

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def active_elements(definition: Definition, state: State) -> list[ActiveElement]:
    """Return the elements that hold a token; each message that one waits for is a line of its own."""
    found: list[ActiveElement] = []
    for token in state.tokens.values():
        if token.key == state.instance_key or token.flow:
            continue  # the process itself, or a token at a join, whose gateway is not active yet
        messages = [wait for wait in state.waits.values() if wait.token == token.key and wait.message]
        for wait in messages or [TokenWait(0, token.key, token.node)]:
            kind = _CAPITAL.sub("_", definition.nodes[wait.node].element).upper()
            message = wait.message or None
            found.append(
                ActiveElement(
                    wait.node,
                    token.key,
                    kind,
                    since=datetime.fromtimestamp(token.since_ms / 1000, UTC) if token.since_ms else None,
                    message_name=message,
                    correlation_key=wait.correlation_key if message else None,
                )
            )
    return found


def open_incidents(definition: Definition, state: State) -> list[EngineIncident]:
    """Return the incidents of an instance in memory, oldest first."""
    process_id = definition.process_id
    return [
        EngineIncident(
            one.key,
            state.instance_key,
            state.tokens[one.token].node or process_id,
            *(one.token, one.kind, one.message),
            job_key=one.job or None,
            process_id=process_id,
        )
        for one in sorted(state.incidents.values(), key=lambda one: one.key)
    ]
