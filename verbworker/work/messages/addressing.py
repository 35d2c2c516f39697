"""Addressing: finds the case of a message, by the verbs that accept it and the cases that have its key."""

from verbworker.contract.message import Addressee, Burial, Undeliverable, address
from verbworker.contract.registry import Registry
from verbworker.stores.messages.inbox import Claimed, Inbox

_NOBODY = Undeliverable(Burial.NO_CASE, "no case waits for it")


class Addressing:
    """Looks up addressees. A message is for one case, for none, or for none yet."""

    def __init__(self, registry: Registry, inbox: Inbox) -> None:
        self._registry = registry
        self._inbox = inbox

    async def find(self, claimed: Claimed, *, is_last_look: bool) -> Addressee | Undeliverable | None:
        """Return the addressee of a message; None while its case may still come, unless this is the last look."""
        declared = {
            workflow.name: workflow.messages[claimed.message_name]
            for workflow in self._registry.workflows.values()
            if claimed.message_name in workflow.messages
        }
        if not declared:
            return Undeliverable(Burial.UNKNOWN_NAME, f"no verb takes a message {claimed.message_name!a}")
        candidates = await self._inbox.candidates(claimed, declared)
        found = address(candidates, tenant_id=claimed.tenant_id, entry_id=claimed.entry_id)
        return _NOBODY if found is None and is_last_look else found
