"""Shows how full the quotas of tenants are, and forgets the counts of minutes that are over."""

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.contract.quota import Quotas
from verbworker.stores.database import Database
from verbworker.stores.tenants.tenant_use import TenantUse

_EVERY = 30.0  # seconds; a pass reads an index of what is open
_SHOWN = 20  # tenants and quotas; as many series as a dashboard can show


class QuotaWatch:
    """Sets the gauge of used quotas. Any number may run concurrently."""

    def __init__(self, database: Database, quotas: Quotas, *, every: float = _EVERY) -> None:
        self._use = TenantUse(database)
        self._quotas = quotas
        self.service = PollLoop("quotas", self.look, every=every, first_after=every)

    async def look(self) -> int:
        """Look once; there is never more to do at once."""
        await self._use.forget()
        shares = [one for one in await self._use.shares(self._quotas) if one.limit is not None]
        metrics.QUOTA_SHARE.clear()
        for one in shares[:_SHOWN]:
            metrics.QUOTA_SHARE.labels(one.tenant_id, one.quota).set(one.share)
        return 0
