"""Which entries the product itself names as standing still. This is the one place that knows how it says so."""

import asyncio
from collections.abc import Sequence

from tests.faults.site import Site

_WORDS = ("stalled", "retry overdue", "timer overdue")


async def stalled_entries(site: Site, open_entries: Sequence[str]) -> list[str]:
    """Those of the open entries whose page in the runbook says that they stand still."""
    said = await asyncio.gather(*(_page(site, entry) for entry in open_entries))
    return [entry for entry, text in zip(open_entries, said, strict=True) if any(word in text for word in _WORDS)]


async def _page(site: Site, entry: str) -> str:
    shown = await site.command("runbook", "show", entry, "--json")
    return "" if shown is None else shown[1].lower()
