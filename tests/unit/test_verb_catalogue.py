"""The catalogue of verbs, which commands and console show."""

from collections.abc import Callable

from pydantic import BaseModel

from verbworker.app.verb_catalogue import cards
from verbworker.contract.registry import Registry


class Odd(BaseModel):
    """A case that JSON schema cannot express."""

    name: str
    then: Callable[[], int] | None = None


def test_a_verb_whose_model_has_no_json_schema_is_listed_by_its_fields() -> None:
    verbs = Registry()

    @verbs.verb("odd.run", mode="external")
    async def run(case: Odd) -> Odd:
        """Run."""
        return case

    (card,) = cards(verbs)

    assert (card.verb, card.takes) == ("odd.run", "name: any, then: any?")
