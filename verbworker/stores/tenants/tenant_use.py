"""What tenants have used of their quotas: refusals by the statements that count, and the shares of all tenants."""

from dataclasses import dataclass
from datetime import timedelta

from verbworker import metrics
from verbworker.contract.quota import Quota, Quotas, explain
from verbworker.errors import QuotaExceeded
from verbworker.stores.database import Database, Row
from verbworker.stores.sql import query

_UNTIL_SOME_END = 30
"""Seconds after which a tenant with too much open may ask again: cases and messages end when they end."""

_KEPT = timedelta(hours=1)
"""How long minutes that are over are kept, for whoever wonders what was used."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much a tenant has used of one quota; a limit of None is none."""

    tenant_id: str
    quota: str
    used: int
    limit: int | None

    @property
    def share(self) -> float:
        """The part that is used: 1 is all of it, and 0 where there is no limit."""
        return self.used / self.limit if self.limit else 0.0


def refuse_excess(row: Row | None, tenant_id: str, quota: Quota) -> None:
    """Raise `QuotaExceeded` if a statement with quotas wrote nothing because one is used up."""
    if row is None or row["quota"] is None:
        return
    name: str = row["quota"]
    seconds = row["seconds"] if name.endswith("_per_minute") else _UNTIL_SOME_END
    metrics.QUOTA_REFUSALS.labels(name).inc()
    raise QuotaExceeded(
        explain(tenant_id, name, quota.limits()[name], seconds), quota=name, retry_after=max(seconds, 1)
    )


class TenantUse:
    """What the tenants of one database use."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def shares(self, quotas: Quotas) -> list[Share]:
        """Return what each tenant uses, the fullest quota first, then the largest number."""
        rows = await self._database.fetch(query("tenant_use", "usage"))
        found = [
            Share(row["tenant_id"], row["quota"], row["used"], quotas.of(row["tenant_id"]).limits().get(row["quota"]))
            for row in rows
        ]
        return sorted(found, key=lambda one: (-one.share, -one.used, one.tenant_id, one.quota))

    async def forget(self) -> None:
        """Delete the counts of minutes that are long over."""
        await self._database.execute(query("tenant_use", "forget"), _KEPT)
