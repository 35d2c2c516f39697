"""A small domain for tests of the runtime: a ledger in Postgres, and a provider that remembers keys."""

import asyncio

from pydantic import BaseModel

from tests.support.flags import flag_contract
from verblint.contracts.contract import Flag, FlagType
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import PermanentBusiness, TransientExternal

TABLE = "CREATE TABLE IF NOT EXISTS ledger (idempotency_key text, amount integer, epoch bigint)"
EFFECTS = "SELECT count(*) FROM ledger"


class Account(BaseModel):
    amount: int = 0
    booked: bool = False
    sent: bool = False
    note: str = ""


class Provider:
    """The outside world: counts every call, and keeps one effect per key as a good provider does."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.effects: set[str] = set()
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def hold(self) -> None:
        """Keep the verbs that wait here until `may_go_on` is set."""
        self.may_go_on.clear()

    async def wait(self) -> None:
        """Where a verb stands still when the test wants it to."""
        self.reached.set()
        await self.may_go_on.wait()

    def call(self, key: str) -> None:
        self.calls.append(key)
        self.effects.add(key)


def ledger_registry(provider: Provider, domain: str = "ledger") -> Registry:
    """Verbs of both modes that work and fail in every way, all allowed to one workflow verb."""
    verbs = ledger_verbs(provider, domain)
    verbs.declare(ledger_workflow(verbs, domain), startable=[verb.name for verb in verbs])
    return verbs


def ledger_verbs(provider: Provider, domain: str) -> Registry:
    verbs = Registry()

    @verbs.verb(f"{domain}.book", mode="transactional", writes=("booked",))
    async def book(account: Account, call: Call) -> Result[Account]:
        """Book the amount."""
        await call.db.execute(
            "INSERT INTO ledger (idempotency_key, amount, epoch) VALUES ($1, $2, $3)",
            call.idempotency_key,
            account.amount,
            call.epoch,
        )
        return Result(account.model_copy(update={"booked": True}), flags={"orch_booked": True})

    @verbs.verb(f"{domain}.send", mode="external", writes=("sent",))
    async def send(account: Account, call: Call) -> Result[Account]:
        """Send the amount to the provider."""
        provider.call(call.idempotency_key)
        return Result(account.model_copy(update={"sent": True}))

    @verbs.verb(f"{domain}.flaky", mode="external", writes=("sent",))
    def flaky(account: Account, call: Call) -> Account:
        """Fail twice, then work. Not async on purpose."""
        provider.call(call.idempotency_key)
        if len(provider.calls) < 3:
            raise TransientExternal("the provider is away", code="ProviderAway")
        return account.model_copy(update={"sent": True})

    @verbs.verb(f"{domain}.refuse", mode="transactional", writes=())
    async def refuse(account: Account, call: Call) -> Account:
        """Say no, after having written something that must not stay."""
        await call.db.execute("INSERT INTO ledger (idempotency_key) VALUES ('refused')")
        raise PermanentBusiness("the account is closed", code="ACCOUNT_CLOSED")

    @verbs.verb(f"{domain}.invent-flag", mode="transactional", writes=())
    async def invent_flag(account: Account, call: Call) -> Result[Account]:
        """Set a flag nobody declared, after having written something that must not stay."""
        await call.db.execute("INSERT INTO ledger (idempotency_key) VALUES ('invented')")
        return Result(account, flags={"orch_invented": True})

    @verbs.verb(f"{domain}.bend-flag", mode="transactional", writes=())
    async def bend_flag(account: Account, call: Call) -> Result[Account]:
        """Set a flag to a value of the wrong type."""
        await call.db.execute("INSERT INTO ledger (idempotency_key) VALUES ('bent')")
        return Result(account, flags={"orch_booked": "yes"})

    @verbs.verb(f"{domain}.annotate", mode="transactional", writes=("note",))
    async def annotate(account: Account) -> Account:
        """Write another field than the other verbs."""
        await provider.wait()
        return account.model_copy(update={"note": "seen"})

    @verbs.verb(f"{domain}.overwrite", mode="external", writes=("note",))
    async def overwrite(account: Account) -> Account:
        """Write the same field as `annotate`, with another value."""
        await provider.wait()
        return account.model_copy(update={"note": "overwritten"})

    return verbs


def ledger_workflow(verbs: Registry, domain: str) -> WorkflowVerb:
    return WorkflowVerb(
        name=f"{domain}.settle",
        version=1,
        process=f"{domain}-settle",
        schema=f"{domain}.settle/v1",
        sub_verbs=tuple(verb.name for verb in verbs),
        flag_contract=flag_contract(Flag("orch_booked", FlagType.BOOLEAN, False)),
    )
