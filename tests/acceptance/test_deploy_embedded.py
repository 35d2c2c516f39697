"""`verbworker deploy` to the embedded engine: what it runs is deployed, what it does not is refused in a sentence."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Said, verbworker
from tests.support.databases import value
from tests.support.models import one_task
from tests.support.refused_models import LINE, ODD, Odd
from tests.support.shop import Shop, make_shop

# The rules of a file's safety cannot be switched off: these come no further.
SAID_BEFORE = {
    *("event subprocess", "escalation", "condition", "link", "two events in one"),
    *("message without a name", "timer without a time"),
}
DEFINITIONS = "SELECT count(*) FROM verbworker_engine.definition"


@pytest.fixture
def shop(tmp_path: Path, unique: Callable[[str], str]) -> Shop:
    return make_shop(tmp_path, unique("x").removeprefix("x-"))


def deploy(shop: Shop, model: bytes, dsn: str, *, ignore: str = "") -> Said:
    file = shop.folder / "processes" / "order" / "process.bpmn"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model)
    (shop.folder / "pyproject.toml").write_text(f'[tool.verblint]\nverbs = "contracts"\nignore = [{ignore}]\n')
    words = ("deploy", "processes", "--app", "shop:registry")
    return verbworker(*words, directory=shop.folder, dsn=dsn, VERBWORKER_ENGINE="embedded")


async def test_a_model_is_deployed_without_any_broker(shop: Shop, dsn: str) -> None:
    said = deploy(shop, one_task(shop.process, shop.verb), dsn)

    assert (said.code, said.out) == (0, f"{shop.process}: deployed, version 1\n")
    assert await value(dsn, DEFINITIONS) == 1


@pytest.mark.req("TOK-22", "PRX-13")
@pytest.mark.parametrize("odd", [odd for odd in ODD if odd.name not in SAID_BEFORE], ids=lambda odd: odd.name)
async def test_a_model_outside_the_set_is_refused_in_a_sentence(shop: Shop, dsn: str, odd: Odd) -> None:
    # The linter would have said it before, so its rules are off: the engine has a word of its own.
    said = deploy(shop, odd.model(shop.process, shop.verb), dsn, ignore='"HB"')

    sentence = said.sentence()
    assert said.code == 1
    assert f".bpmn:{LINE}: " in sentence
    assert "'odd'" in sentence
    assert odd.way in sentence
    assert await value(dsn, DEFINITIONS) == 0


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd.name in SAID_BEFORE], ids=lambda odd: odd.name)
async def test_what_is_wrong_for_every_engine_is_refused_before_this_one_is_asked(
    shop: Shop, dsn: str, odd: Odd
) -> None:
    said = deploy(shop, odd.model(shop.process, shop.verb), dsn, ignore='"HB"')

    words = said.out + said.err
    assert said.code == 1
    assert re.search(rf"(process\.bpmn:|line ){LINE}\b", words)
    assert "odd" in words
    assert "Traceback" not in words
    assert await value(dsn, DEFINITIONS) == 0
