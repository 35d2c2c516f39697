"""Which entries the product itself names as stalled. This is the one place that knows how it says so."""

import asyncio
from collections.abc import Sequence

from tests.faults.site import Site

_WORD = "stalled"


async def stalled_entries(site: Site, open_entries: Sequence[str]) -> list[str]:
    """Those of the open entries whose page in the runbook, or whose events, say that they are stalled."""
    said = await asyncio.gather(*(_pages(site, entry) for entry in open_entries))
    return [entry for entry, text in zip(open_entries, said, strict=True) if _WORD in text.lower()]


async def _pages(site: Site, entry: str) -> str:
    shown = await site.command("runbook", "show", entry, "--json")
    events = await site.command("runbook", "events", entry, "--json")
    return "".join(answer[1] for answer in (shown, events) if answer is not None)
