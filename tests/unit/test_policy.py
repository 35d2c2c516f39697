"""Policies: the file, its constraints, and the pauses between tries."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verbworker.contract.policy import DEFAULT_POLICY, Policy, RetryPolicy, load_policies
from verbworker.errors import ContractInvalid

STANDARD = """\
version: 1
policies:
  - name: standard
    schedule_to_close_timeout_seconds: 3600
    start_to_close_timeout_seconds: 30
    retry:
      maximum_attempts: 5
      initial_interval_seconds: 2
      maximum_interval_seconds: 20
      backoff_coefficient: 2.0
      non_retryable_error_types: [ValueError, shop.OutOfStock]
  - name: patient
    schedule_to_close_timeout_seconds: 86400
    start_to_close_timeout_seconds: 0.5
    retry:
      maximum_attempts: 1
      initial_interval_seconds: 1
      maximum_interval_seconds: 1
      backoff_coefficient: 1
"""


def load(folder: Path, text: str) -> dict[str, Policy]:
    file = folder / "policies.yaml"
    file.write_text(text)
    return dict(load_policies(file))


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(ContractInvalid) as caught:
        load(folder, text)
    return str(caught.value).replace(str(folder / "policies.yaml"), "F").splitlines()


def make_policy(attempts: int = 3, first: float = 1, most: float = 60, factor: float = 2) -> Policy:
    retry = RetryPolicy(
        maximum_attempts=attempts,
        initial_interval_seconds=first,
        maximum_interval_seconds=most,
        backoff_coefficient=factor,
    )
    return Policy(name="p", schedule_to_close_timeout_seconds=60, start_to_close_timeout_seconds=6, retry=retry)


@pytest.mark.req("POL-01", "POL-02")
def test_a_policy_file_is_read_by_name(tmp_path: Path) -> None:
    policies = load(tmp_path, STANDARD)

    assert list(policies) == ["standard", "patient"]
    assert policies["standard"].retry.maximum_attempts == 5
    assert policies["standard"].retry.non_retryable_error_types == ("ValueError", "shop.OutOfStock")
    assert policies["patient"].start_to_close_timeout_seconds == 0.5


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("version: 1", "version: 2", "F:1:1: version: must be 1"),
        ("version: 1", "version: true", "F:1:1: version: must be 1"),
        ("version: 1", "version: 1.0", "F:1:1: version: must be 1"),
        ("version: 1\n", "", "F:1:1: version: is missing"),
        ("seconds: 3600", "seconds: 0", "F:4:5: policies[0].schedule_to_close_timeout_seconds: must be greater than 0"),
        ("seconds: 30\n", "seconds: -1\n", "F:5:5: policies[0].start_to_close_timeout_seconds: must be greater than 0"),
        ("seconds: 30\n", 'seconds: "30"\n', "F:5:5: policies[0].start_to_close_timeout_seconds: must be a number"),
        ("attempts: 5", "attempts: 0", "F:7:7: policies[0].retry.maximum_attempts: must be between 1 and 1000000"),
        ("attempts: 5", "attempts: 1.5", "F:7:7: policies[0].retry.maximum_attempts: must be an integer"),
        ("maximum_attempts: 5", "maximum_attempt: 5", "did you mean maximum_attempts?"),
        (
            "coefficient: 2.0",
            "coefficient: 0.9",
            "F:10:7: policies[0].retry.backoff_coefficient: must be between 1 and 1000",
        ),
        (
            "[ValueError",
            "[Value Error",
            "F:11:35: policies[0].retry.non_retryable_error_types[0]: 'Value Error' is not",
        ),
        ("name: patient", "name: standard", "F:12:5: policies[1].name: the policy standard is declared twice"),
        ("name: patient", 'name: ""', "F:12:5: policies[1].name: '' is not a policy's name, like standard"),
        (
            "maximum_interval_seconds: 20",
            "maximum_interval_seconds: 1",
            "F:9:7: policies[0].retry.maximum_interval_seconds: must not be less than initial_interval_seconds",
        ),
    ],
)
@pytest.mark.req("POL-03")
def test_every_mistake_is_told_with_file_line_and_field(
    tmp_path: Path, written: str, instead: str, problem: str
) -> None:
    assert written in STANDARD

    found = problems_of(tmp_path, STANDARD.replace(written, instead, 1))

    assert any(problem in line for line in found), found


@pytest.mark.req("POL-03")
def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    third = STANDARD.partition("  - name: patient")[2]
    text = STANDARD.replace("maximum_interval_seconds: 20", "x: 1") + f"  - name: patient{third}"

    assert [problem.partition(": ")[2] for problem in problems_of(tmp_path, text)] == [
        "policies[0].retry.maximum_interval_seconds: is missing",
        "policies[0].retry.x: unknown field",
        "policies[2].name: the policy patient is declared twice, first at F:12:5",
    ]


@pytest.mark.parametrize("text", ["a: &x 1", "version: 1\nversion: 1", "version: 1\npolicies: *x"])
def test_a_file_that_is_not_strict_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (problem,) = problems_of(tmp_path, text)

    assert problem.startswith("F:")


def test_a_file_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ContractInvalid, match=r"gone\.yaml:1:1: cannot be read: No such file or directory"):
        load_policies(tmp_path / "gone.yaml")


@pytest.mark.req("POL-06")
def test_pauses_grow_up_to_their_cap() -> None:
    policy = make_policy(first=2, most=20, factor=2)

    assert [policy.delay(attempt, 1.0) for attempt in (1, 2, 3, 4, 5, 100_000)] == [2, 4, 8, 16, 20, 20]


@pytest.mark.req("POL-06")
@given(st.integers(1, 5000), st.floats(0, 1), st.floats(1, 100))
def test_jitter_spreads_a_delay_between_half_and_all_of_it(attempt: int, jitter: float, factor: float) -> None:
    policy = make_policy(factor=factor)
    longest = policy.delay(attempt, 1.0)

    assert longest / 2 <= policy.delay(attempt, jitter) <= longest <= 60


@pytest.mark.req("POL-06")
def test_without_a_policy_work_is_bounded_all_the_same() -> None:
    assert DEFAULT_POLICY.retry.maximum_attempts == 3
    assert 0 < DEFAULT_POLICY.start_to_close_timeout_seconds < DEFAULT_POLICY.schedule_to_close_timeout_seconds
