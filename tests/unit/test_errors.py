"""The tree of errors, as drawn and as written."""

import inspect
import re

import pytest

from verbworker import errors

_LINE = re.compile(r"^(?P<rails>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:\s{2,}(?P<why>.+))?$")


def drawn() -> dict[str, str]:
    """Child -> parent as the docstring draws it; a level is four characters wide."""
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines()[2:]:
        found = _LINE.match(line)
        assert found, f"not a line of the tree: {line!r}"
        depth = len(found["rails"]) // 4
        del branch[depth:]
        parents[found["name"]] = branch[-1] if branch else "Exception"
        branch.append(found["name"])
    return parents


def written() -> dict[str, str]:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    return {kind.__name__: kind.__bases__[0].__name__ for kind in classes}


@pytest.mark.req("FAIL-01")
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert drawn() == written()


def test_every_error_has_one_parent() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]

    assert [kind for kind in classes if len(kind.__bases__) != 1] == []


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize(
    "kind",
    [
        errors.TransientExternal,
        errors.TransientInfrastructure,
        errors.PermanentContract,
        errors.PermanentBusiness,
    ],
)
def test_a_failure_class_is_named_as_it_is_stored(kind: type[errors.Failure]) -> None:
    assert kind("why").kind == kind.__name__


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize(
    ("kind", "stored"),
    [(errors.OutcomeUnknown, "TransientExternal"), (errors.PayloadIntegrityError, "PermanentContract")],
)
def test_a_narrower_failure_is_stored_under_its_class_and_told_by_its_code(
    kind: type[errors.Failure], stored: str
) -> None:
    failure = kind("why")

    assert (failure.kind, failure.code) == (stored, kind.__name__)


def test_a_business_failure_is_thrown_only_when_it_was_given_a_code() -> None:
    assert errors.PermanentBusiness("no", code="REJECTED").thrown == "REJECTED"
    assert errors.PermanentBusiness("no").thrown is None
