"""What an error of Postgres says, in one line, and without the row or the password that it may quote."""

from verbworker.errors import StoreUnavailable
from verbworker.stores.dsn import advice_for, hide_password, is_cut, is_wrong

_LONGEST_REASON = 2_000  # characters of an error of Postgres


def reason_of(error: BaseException) -> str:
    """Return the message of an error with what to do, if that is known."""
    # Leave out details and rejected arguments: they contain the row, which may be a payload.
    is_postgres = getattr(error, "sqlstate", None) is not None
    text = str(error.args[0]) if is_postgres and error.args else str(error)
    if text.startswith("invalid input for query argument"):
        text = text.partition(":")[0]
    advice = advice_for(error)
    # Cut first: a verb's statement may raise a text of megabytes.
    return (" ".join(text[:_LONGEST_REASON].split()) or type(error).__name__) + (
        "" if advice is None else f"; {advice}"
    )


def unreachable(dsn: str, error: BaseException) -> StoreUnavailable:
    """Return the error of a database that cannot be reached, with its address as far as it is no secret."""
    address = hide_password(dsn)
    if address is None:
        reason = "write postgresql://user:password@host:port/database, special characters in the password as %XX"
        return StoreUnavailable(f"the database cannot be reached: its address cannot be read; {reason}", is_wrong=True)
    advice = "" if advice_for(error) else f"; {'see that the server runs' if is_cut(error) else 'check VERBWORKER_DSN'}"
    sentence = f"the database at {address} cannot be reached: {reason_of(error)}{advice}"
    return StoreUnavailable(sentence, is_wrong=is_wrong(error))
