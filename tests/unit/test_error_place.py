"""Where an exception comes from: its author's innermost line, whatever ran around and below it."""

import asyncio
import importlib
import json
import sys
from functools import wraps
from pathlib import Path
from types import ModuleType

import asyncpg
import pytest

from verbworker.contract.text import require_text
from verbworker.errors import InvocationInvalid, PermanentContract, StoreError
from verbworker.job.error_place import RaisedError, locate_error

SECRET = "iban DE89 3704"


def look_up() -> object:
    known: dict[str, object] = {}
    return known[SECRET]


def parse() -> object:
    return json.loads(SECRET)


def translate() -> object:
    try:
        return look_up()
    except KeyError as error:
        raise ValueError(SECRET) from error


def raised(act: object) -> BaseException:
    assert callable(act)
    try:
        act()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    ("act", "kind", "function"),
    [(look_up, "KeyError", "look_up"), (parse, "JSONDecodeError", "parse"), (translate, "ValueError", "translate")],
)
def test_the_innermost_line_of_the_author_is_named_and_never_a_message(act: object, kind: str, function: str) -> None:
    found = locate_error(raised(act))

    assert (found.type, found.file, found.function) == (kind, "tests/unit/test_error_place.py", function)
    assert SECRET not in f"{found} {found.name} {found.place} {found.fields()}"


def test_an_error_that_we_translated_is_told_as_the_author_saw_it() -> None:
    def insert() -> None:
        raise asyncpg.UniqueViolationError(SECRET)

    error = StoreError("refused")
    error.__cause__ = raised(insert)
    found = locate_error(error)

    assert found.name == "UniqueViolationError (SQLSTATE 23505)"
    assert found.function is not None
    assert found.function.endswith("insert")


def test_a_group_whose_members_were_never_raised_has_its_own_place() -> None:
    def raise_group() -> None:
        raise ExceptionGroup("both", [ValueError("one"), TypeError("two")])

    with pytest.raises(ExceptionGroup) as caught:
        raise_group()
    raised = locate_error(caught.value)

    assert raised.type == "ExceptionGroup"
    assert "test_error_place.py" in raised.place


def test_the_member_of_a_group_is_named() -> None:
    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(look_up))

    found = locate_error(raised(lambda: asyncio.run(work())))

    assert (found.type, found.function) == ("KeyError", "look_up")


def test_an_error_without_a_line_of_the_author_has_no_place() -> None:
    assert locate_error(KeyError(SECRET)) == RaisedError("KeyError")


def test_a_failure_about_a_function_has_the_place_of_that_function_although_it_never_ran() -> None:
    @wraps(look_up)
    def guarded() -> object:
        return look_up()

    first = look_up.__code__.co_firstlineno
    expected = RaisedError("PermanentContract", "tests/unit/test_error_place.py", first, "look_up")

    assert locate_error(PermanentContract(SECRET, function=look_up)) == expected
    assert locate_error(PermanentContract(SECRET, function=guarded)) == expected


def test_a_failure_about_something_without_python_code_has_no_place() -> None:
    assert locate_error(PermanentContract(SECRET, function=len)) == RaisedError("PermanentContract")


def test_a_failure_that_the_author_raised_has_the_place_of_the_raise() -> None:
    def refuse() -> None:
        raise PermanentContract(SECRET, function=look_up)

    assert (locate_error(raised(refuse)).function or "").endswith("refuse")


def test_an_installed_application_is_its_authors_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "lib" / "site-packages" / "claims"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "verbs.py").write_text("def assess():\n    return {}['x']\n")
    monkeypatch.syspath_prepend(str(place.parent))
    module: ModuleType = importlib.import_module("claims.verbs")
    error = raised(module.assess)
    try:
        assert locate_error(error, "claims.verbs") == RaisedError("KeyError", "claims/verbs.py", 2, "assess")
        assert locate_error(error, "other.verbs").file == "tests/unit/test_error_place.py"
    finally:
        for name in ("claims.verbs", "claims"):
            sys.modules.pop(name)


def test_errors_that_led_to_each_other_are_each_looked_at_once() -> None:
    first, second = KeyError(SECRET), ValueError(SECRET)
    first.__cause__, second.__cause__ = second, first

    assert locate_error(first) == RaisedError("KeyError")


def test_a_line_of_the_runtime_is_not_the_authors() -> None:
    with pytest.raises(InvocationInvalid) as refused:
        require_text("the reason", "", 1)
    # Without this test's own line, only the runtime's is left.
    ours = refused.value.with_traceback(refused.tb.tb_next)

    assert locate_error(ours) == RaisedError("InvocationInvalid")
