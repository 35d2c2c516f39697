"""Seed 001, section 14: the catalogue of policies is checked field by field, with file and line."""

from pathlib import Path

import pytest

from tests.support.strict_model import MODEL
from verblint.cli import main
from verblint.contracts.contract_files import ContractError, read_contracts

POLICIES = """\
version: 1
policies:
  - name: standard
    schedule_to_close_timeout_seconds: 3600
    start_to_close_timeout_seconds: 30
    retry:
      maximum_attempts: 3
      initial_interval_seconds: 1
      maximum_interval_seconds: 60
      backoff_coefficient: 2.0
      non_retryable_error_types: [ValueError, shop.OutOfStock]
  - name: patient
    schedule_to_close_timeout_seconds: 60
    start_to_close_timeout_seconds: 6
    retry:
      maximum_attempts: 1
      initial_interval_seconds: 1
      maximum_interval_seconds: 1
      backoff_coefficient: 1
      non_retryable_error_types: []
"""
VERB = """\
verb: claim.settle
version: 1
strategy: workflow
process: claim
sub_verbs: [claim.ask, claim.check, claim.tell, claim.notify]
flags: {orch_approved: {type: boolean, initial: false}}
policy: standard
correlation: {keys: {corr_documents: "${state.claim_id}", corr_payment: "${state.payment.id}"}}
messages: {documents-received: corr_documents, payment-confirmed: corr_payment}
gates: {review: {task: Review, decisions: [approve, reject]}}
"""
# What is written, what is written instead, and what is said of it.
WRONG = [
    ("version: 1\n", "", "1:1: version: is missing"),
    ("version: 1", "version: 2", "1:1: version: must be 1"),
    ("version: 1", "version: true", "1:1: version: must be 1"),
    ("version: 1", 'version: "1"', "1:1: version: must be 1"),
    ("version: 1", "version: 1\nowner: me", "2:1: owner: unknown field"),
    ("name: patient", "name: standard", "12:5: policies[1].name: the policy standard is declared twice"),
    ("  - name: patient\n    s", "  - s", "12:5: policies[1].name: is missing"),
    ("name: patient", 'name: ""', "12:5: policies[1].name: '' is not a policy's name"),
    ("name: patient", "name: so patient", "12:5: policies[1].name: 'so patient' is not a policy's name, like standard"),
    *(
        (
            f"    {field}: {number}\n",
            f"    {field}: {given}\n" if given else "",
            f"policies[0].{field}: {words}",
        )
        for field, number in (("schedule_to_close_timeout_seconds", 3600), ("start_to_close_timeout_seconds", 30))
        for given, words in (
            ("", "is missing"),
            ("0", "must be greater than 0"),
            ("-1", "must be greater than 0"),
            ("true", "must be "),
            ('"30"', "must be "),
            ("400000000", "must be between 0 and 316224000"),
        )
    ),
    *(
        (
            f"      {field}: {number}\n",
            f"      {field}: {given}\n" if given else "",
            f"policies[0].retry.{field}: {words}",
        )
        for field, number, options in (
            ("maximum_attempts", 3, (("", "is missing"), ("0", "must be between 1"), ("1.5", "must be an integer"))),
            ("maximum_attempts", 3, (("true", "must be an integer"), ("2000000", "must be between 1 and 1000000"))),
            ("initial_interval_seconds", 1, (("", "is missing"), ("0", "must be greater"), ("x", "must be "))),
            ("maximum_interval_seconds", 60, (("", "is missing"), ("-5", "must be greater"), ("[]", "must be "))),
            ("backoff_coefficient", "2.0", (("", "is missing"), ("0.9", "must be between 1"), ("0", "must be"))),
            ("backoff_coefficient", "2.0", (("two", "must be a number"), ("2000", "must be between 1 and 1000"))),
        )
        for given, words in options
    ),
    (
        "initial_interval_seconds: 1\n",
        "initial_interval_seconds: 61\n",
        "9:7: policies[0].retry.maximum_interval_seconds: must not be less than initial_interval",
    ),
    (
        "[ValueError, shop",
        "[Value Error, shop",
        "11:35: policies[0].retry.non_retryable_error_types[0]: 'Value Error' is not the name of",
    ),
    ("[ValueError, shop.OutOfStock]", "ValueError", "policies[0].retry.non_retryable_error_types: must be a list"),
    ("[ValueError, shop.OutOfStock]", "", "policies[0].retry.non_retryable_error_types: must be a list"),
    ("[ValueError, shop.OutOfStock]", "[7]", "policies[0].retry.non_retryable_error_types[0]: must be a text"),
    ("backoff_coefficient: 2.0", "back_off_coefficient: 2.0", "unknown field; did you mean backoff_coefficient?"),
    ("    start_to", "    jitter: 1\n    start_to", "5:5: policies[0].jitter: unknown field"),
    ("    retry:\n      maximum_attempts: 3", "    x:\n      maximum_attempts: 3", "policies[0].retry: is missing"),
    ("policies:\n", "policies: none\nx:\n", "policies: must be a list"),
    ("policies:\n", "policies:\n  - standard\n", "3:5: policies[0]: must be a mapping"),
]
# What only the profile strict-v1 refuses.
INEXACT = [
    ("      non_retryable_error_types: []\n", "", "policies[1].retry.non_retryable_error_types: is missing"),
    (
        "timeout_seconds: 6\n",
        "timeout_seconds: 0.5\n",
        "policies[1].start_to_close_timeout_seconds: must be an integer",
    ),
    ("maximum_interval_seconds: 60", "maximum_interval_seconds: 60.0", "maximum_interval_seconds: must be an integer"),
]


def faults(folder: Path, text: str, *, is_exact: bool = True) -> list[str]:
    """What is said of a policy file."""
    file = folder / "policies.yaml"
    file.write_text(text)
    try:
        read_contracts(folder, is_exact=is_exact)
    except ContractError as error:
        return [str(fault).removeprefix(f"{file}:") for fault in error.faults]
    return []


@pytest.mark.req("POL-01", "POL-02")
def test_a_whole_catalogue_is_read(tmp_path: Path) -> None:
    assert faults(tmp_path, POLICIES) == []
    assert {name: policy.attempts for name, policy in read_contracts(tmp_path).policies.items()} == {
        "standard": 3,
        "patient": 1,
    }


@pytest.mark.req("POL-02", "POL-03")
@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize(("written", "instead", "words"), WRONG)
def test_a_catalogue_is_refused_with_line_and_field(
    tmp_path: Path, written: str, instead: str, words: str, is_exact: bool
) -> None:
    assert written in POLICIES

    said = faults(tmp_path, POLICIES.replace(written, instead, 1), is_exact=is_exact)

    assert any(words in fault for fault in said), said


@pytest.mark.req("POL-02", "POL-03", "X-26")
@pytest.mark.parametrize(("written", "instead", "words"), INEXACT)
def test_strict_v1_leaves_nothing_in_a_policy_to_a_default(
    tmp_path: Path, written: str, instead: str, words: str
) -> None:
    text = POLICIES.replace(written, instead, 1)

    (said,) = faults(tmp_path, text)

    assert words in said
    assert faults(tmp_path, text, is_exact=False) == []


# By the command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the model, its verb and its policies."""
    monkeypatch.chdir(tmp_path)
    verbs = tmp_path / "verbs"
    verbs.mkdir()
    (verbs / "claim.yaml").write_text(VERB)
    (verbs / "policies.yaml").write_text(POLICIES)
    (tmp_path / "claim.bpmn").write_text(MODEL)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What `verblint check` says of the project, and how it ends."""
    code = main(["check", "claim.bpmn", "--verbs", "verbs", "--profile", "strict-v1", "--format", "concise"])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.req("POL-03", "POL-04")
def test_a_model_with_its_catalogue_is_clean(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys) == (0, "")


@pytest.mark.req("POL-03")
def test_a_wrong_number_ends_the_command_with_file_and_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "verbs" / "policies.yaml").write_text(POLICIES.replace("attempts: 3", "attempts: 0"))

    code, said = check(capsys)

    assert code == 2
    assert "policies.yaml:7:7: policies[0].retry.maximum_attempts: must be between 1 and 1000000" in said


@pytest.mark.req("POL-04")
def test_a_policy_that_a_task_names_must_be_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "claim.bpmn").write_text(
        MODEL.replace('"claim.ask" policyRef="standard"', '"claim.ask" policyRef="std"')
    )
    line = 1 + MODEL[: MODEL.index('"claim.ask" policyRef')].count("\n")

    code, said = check(capsys)

    assert code == 1
    assert f"claim.bpmn:{line}:" in said
    assert "AM715 no policy is called std" in said
