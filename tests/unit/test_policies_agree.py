"""Linter and runtime say the same of a policy file, and name the same places."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verblint.contracts.contract_files import ContractError, read_contracts
from verbworker.contract.policy import load_policies
from verbworker.errors import ContractInvalid

NUMBERS = st.sampled_from(
    ["0", "-1", "1", "0.5", "1.0", "3", "61", "1000", "1001", "1000001", "400000000", "true", "x"]
)
NAMES = st.sampled_from(["standard", "a b", '""', "Name", "7x", "-a", "x.y_z-1", "null"])
ERRORS = st.sampled_from(["[]", "[ValueError]", "[a b]", "x", "[1]", "", "[shop.Gone, KeyError]"])


@st.composite
def files(draw: st.DrawFn) -> str:
    """A policy file in which some fields are wrong and some are missing."""
    lines = ["version: " + draw(st.sampled_from(["1", "1", "1", "2", "true"])), "policies:"]
    for _ in range(draw(st.integers(0, 2))):
        fields = {
            "schedule_to_close_timeout_seconds": draw(NUMBERS),
            "start_to_close_timeout_seconds": draw(NUMBERS),
        }
        retry = {
            "maximum_attempts": draw(NUMBERS),
            "initial_interval_seconds": draw(NUMBERS),
            "maximum_interval_seconds": draw(NUMBERS),
            "backoff_coefficient": draw(NUMBERS),
            "non_retryable_error_types": draw(ERRORS),
        }
        left_out = draw(st.sampled_from([*fields, *retry, *[""] * 20]))
        lines.append(f"  - name: {draw(NAMES)}")
        lines += [f"    {name}: {text}" for name, text in fields.items() if name != left_out]
        lines += ["    retry:", *(f"      {name}: {text}" for name, text in retry.items() if name != left_out)]
    return "\n".join(lines) + "\n"


def linted(folder: Path) -> set[str]:
    """The places that the linter finds wrong."""
    try:
        read_contracts(folder)
    except ContractError as error:
        return {f"{fault.line}:{fault.field}" for fault in error.faults}
    return set()


def loaded(folder: Path) -> set[str]:
    """The places that the runtime finds wrong."""
    try:
        load_policies(folder / "policies.yaml")
    except ContractInvalid as error:
        parts = (line.removeprefix(str(folder / "policies.yaml")).split(":") for line in str(error).splitlines())
        return {f"{line}:{field.strip()}" for _, line, _, field, *_ in parts}
    return set()


@pytest.mark.req("POL-02", "POL-03")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=files())
def test_the_linter_and_the_runtime_say_the_same_of_a_policy_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "policies.yaml").write_text(text)

    assert linted(tmp_path) == loaded(tmp_path)
