"""A small domain for tests of the runtime: a ledger in Postgres, and a provider that remembers keys."""

from pydantic import BaseModel

from verbworker.errors import PermanentBusiness, TransientExternal
from verbworker.flags import Flag, FlagContract
from verblint.contract import FlagType
from verbworker.registry import Registry
from verbworker.verb import Call, Result
from verbworker.workflow import WorkflowVerb

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

    def call(self, key: str) -> None:
        self.calls.append(key)
        self.effects.add(key)


def ledger_registry(provider: Provider) -> Registry:
    """A transactional, an external and three failing verbs, all allowed to one workflow verb."""
    verbs = Registry()

    @verbs.verb("ledger.book", mode="transactional", writes=("booked",))
    async def book(account: Account, call: Call) -> Result[Account]:
        """Book the amount."""
        await call.db.execute(
            "INSERT INTO ledger (idempotency_key, amount, epoch) VALUES ($1, $2, $3)",
            call.idempotency_key,
            account.amount,
            call.epoch,
        )
        return Result(account.model_copy(update={"booked": True}), flags={"orch_booked": True})

    @verbs.verb("ledger.send", mode="external", writes=("sent",))
    async def send(account: Account, call: Call) -> Result[Account]:
        """Send the amount to the provider."""
        provider.call(call.idempotency_key)
        return Result(account.model_copy(update={"sent": True}))

    @verbs.verb("ledger.flaky", mode="external", writes=("sent",))
    def flaky(account: Account, call: Call) -> Account:
        """Fail twice, then work. Not async on purpose."""
        provider.call(call.idempotency_key)
        if len(provider.calls) < 3:
            raise TransientExternal("the provider is away", code="ProviderAway")
        return account.model_copy(update={"sent": True})

    @verbs.verb("ledger.refuse", mode="transactional", writes=())
    async def refuse(account: Account, call: Call) -> Account:
        """Say no, after having written something that must not stay."""
        await call.db.execute("INSERT INTO ledger (idempotency_key) VALUES ('refused')")
        raise PermanentBusiness("the account is closed", code="ACCOUNT_CLOSED")

    verbs._take([ledger_workflow(verbs)], [])
    return verbs


def ledger_workflow(verbs: Registry) -> WorkflowVerb:
    return WorkflowVerb(
        name="ledger.settle",
        version=1,
        process="ledger-settle",
        schema="ledger.settle/v1",
        sub_verbs=tuple(verb.name for verb in verbs),
        flag_contract=FlagContract.of([Flag("orch_booked", FlagType.BOOLEAN, False)]),
    )
