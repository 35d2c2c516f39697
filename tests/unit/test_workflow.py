"""Workflow verbs: their YAML, every way it can be wrong, and what a loaded verb can do."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from verblint.contracts.contract import DEFAULT_BUDGET
from verblint.contracts.contract_files import ContractError, read_contracts
from verbworker.contract.workflow import WorkflowVerb, load_verbs, workflow_verbs
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, TENANT_ID
from verbworker.model.start_variables import begin

OPEN_CASE = """\
verb: kyc.open-case
version: 1
strategy: workflow
sentences:
  step: "Open a {case-type} case for {entity}"
  summary: "Case for {entity}"
  clarify: {entity: "Which entity?"}
args:
  entity: {type: string, required: true, summary: The legal entity}
  case-type: {type: enum, values: [periodic-review, onboarding], default: onboarding}
  pages: {type: integer}
  score: {type: number}
  urgent: {type: boolean, default: false}
process: kyc-open-case
wait: fire-and-track
correlation:
  business_key: "${state.entity_ref}"
  keys: {corr_documents: "case-${state.case_id}"}
payload:
  schema: kyc.open-case/v1
  budget: 32768
  integrity: signed
  initial: {entity_ref: args.entity, case.kind: args.case-type, case.pages: args.pages}
  outcome: {decision: data.review.decision, kind: data.case.kind}
sub_verbs: [kyc.request-documents, kyc.screen]
flags:
  orch_docs_received: {type: boolean, initial: false}
  orch_review: {type: enum, values: [pending, approved], initial: pending}
messages: {documents-received: corr_documents}
gates:
  review: {task: Review, decisions: [approve, reject], audience: reviewer}
  Approve: {}
policy: standard
policies: {kyc.screen: patient}
compensation: {kyc.request-documents: kyc.withdraw-request}
owner: kyc team
errors: {kyc.screen: [SANCTIONS_HIT, name unclear], kyc.request-documents: []}
"""
SMALL = "verb: kyc.small\nversion: 2\nstrategy: workflow\nprocess: kyc-small\n"


def write(folder: Path, text: str, name: str = "kyc/verb.yaml") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def load_one(folder: Path, text: str) -> WorkflowVerb:
    write(folder, text)
    (verb,) = workflow_verbs(load_verbs(folder))
    return verb


def problems_of(folder: Path, text: str) -> list[str]:
    file = write(folder, text)
    with pytest.raises(ContractInvalid) as caught:
        workflow_verbs(load_verbs(folder))
    return str(caught.value).replace(str(file), "F").splitlines()


@pytest.mark.req("REG-04", "REG-06", "REG-07", "REG-08", "REG-09", "REG-10", "REG-11", "REG-15", "X-10")
def test_a_workflow_verb_is_read_in_full(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert (verb.name, verb.version, verb.process, verb.schema) == (
        "kyc.open-case",
        1,
        "kyc-open-case",
        "kyc.open-case/v1",
    )
    assert (verb.wait, verb.budget, verb.integrity, verb.owner) == ("fire-and-track", 32768, "signed", "kyc team")
    assert verb.business_key == "${state.entity_ref}"
    assert verb.correlation == {"corr_documents": "case-${state.case_id}"}
    assert verb.messages == {"documents-received": "corr_documents"}
    assert verb.sub_verbs == ("kyc.request-documents", "kyc.screen")
    assert verb.compensation == {"kyc.request-documents": "kyc.withdraw-request"}
    assert verb.flag_contract.initial() == {"orch_docs_received": False, "orch_review": "pending"}
    assert (verb.gates["review"].task, verb.gates["Approve"].task) == ("Review", "Approve")
    assert verb.gates["review"].decisions == ("approve", "reject")


@pytest.mark.req("REG-10", "X-10")
def test_a_sub_verb_runs_under_its_own_policy_or_the_verbs(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert verb.policy_of("kyc.screen") == "patient"
    assert verb.policy_of("kyc.request-documents") == "standard"
    assert load_one(tmp_path, SMALL).policy_of("kyc.screen") is None


@pytest.mark.req("REG-02", "REG-09")
def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    verb = load_one(tmp_path, SMALL)

    assert (verb.schema, verb.budget, verb.integrity) == ("kyc.small/v2", DEFAULT_BUDGET, "plain")
    assert (verb.wait, verb.sub_verbs, verb.policy) == ("fire-and-track", (), None)
    assert verb.say({}) == "kyc.small"


@pytest.mark.req("REG-03", "REG-12")
def test_a_file_may_hold_several_verbs_and_direct_ones_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "version: 1\npolicies: nonsense\n", "policies.yaml")
    write(tmp_path, "not looked at", "README.md")
    write(
        tmp_path,
        "verbs:\n"
        "  - {verb: b.workflow, version: 1, strategy: workflow, process: b}\n"
        "  - {verb: b.direct, mode: external, writes: [a.b], args: {x: {type: string}}}\n"
        "  - {verb: a.workflow, version: 1, strategy: workflow, process: a}\n",
        "all.yml",
    )

    assert [verb.name for verb in workflow_verbs(load_verbs(tmp_path))] == ["a.workflow", "b.workflow"]


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("verb: kyc.open-case", "verb: Kyc", "F:1:1: verb: 'Kyc' is not a verb's name, like kyc.open-case"),
        ("version: 1\n", "", "F:1:1: version: is missing"),
        ("version: 1\n", "version: true\n", "F:2:1: version: must be an integer"),
        ("version: 1\n", "version: 0\n", "F:2:1: version: must be between 1 and 999999999"),
        ("strategy: workflow", "strategy: workflw", "F:3:1: strategy: must be direct or workflow"),
        ("wait: fire-and-track", "wait: forever", "F:15:1: wait: must be fire-and-track or blocking"),
        ("wait: fire-and-track", "waits: blocking", "F:15:1: waits: unknown field; did you mean wait?"),
        ("wait: fire-and-track", "zzz: 1", "F:15:1: zzz: unknown field"),
        ("integrity: signed", "integrity: maybe", "F:22:3: payload.integrity: must be plain or signed"),
        ("budget: 32768", "budget: 2000000", "F:21:3: payload.budget: must be between 1024 and 1048576"),
        ("budget: 32768", "budgets: 5", "F:21:3: payload.budgets: unknown field; did you mean budget?"),
        ("args.entity,", "args.entit,", "F:23:13: payload.initial.entity_ref: args.entit is not declared in args"),
        (
            "args.entity,",
            "entity,",
            "F:23:13: payload.initial.entity_ref: 'entity' is not an argument, like args.entity",
        ),
        (
            "case.pages: args",
            "case: args",
            "F:23:65: payload.initial.case: case is both a value and an object with fields",
        ),
        ("summary: The legal", "sumary: The legal", "F:9:42: args.entity.sumary: unknown field; did you mean summary?"),
        ("{type: integer}", "{type: int}", "F:11:11: args.pages.type: must be"),
        ("default: onboarding", "default: other", "F:10:66: args.case-type.default: must be one of periodic-review"),
        (
            "{type: integer}",
            "{type: integer, values: [a]}",
            "F:11:3: args.pages: an enum, and only an enum, has values",
        ),
        (
            "{type: integer}",
            "{type: integer, required: true, default: 5}",
            "F:11:42: args.pages.default: a required argument has no default",
        ),
        ("{type: integer}", "{type: integer, default: 1.5}", "F:11:26: args.pages.default: must be of type integer"),
        ("case for {entity}", "case for {entiti}", "F:5:3: sentences.step: {entiti} is not declared in args"),
        (
            "clarify: {entity:",
            "clarify: {entitee:",
            "F:7:13: sentences.clarify.entitee: entitee is not declared in args",
        ),
        ('step: "Open a {case-type} case for {entity}"', 'steps: "x"', "F:4:1: sentences.step: is missing"),
        (
            'step: "Open a {case-type} case for {entity}"',
            'step: "x"\n  sumary: "x"',
            "F:6:3: sentences.sumary: unknown field; did you mean summary?",
        ),
        ("kyc.screen]", "kyc.request-documents]", "F:25:36: sub_verbs[1]: kyc.request-documents is listed twice"),
        ("kyc.screen]", "kyc.open-case]", "F:25:36: sub_verbs[1]: kyc.open-case is a workflow verb"),
        ("kyc.withdraw-request", "kyc.open-case", "F:35:16: compensation.kyc.request-documents: kyc.open-case is a wo"),
        ("policies: {kyc.screen", "policies: {kyc.scren", "F:34:12: policies.kyc.scren: kyc.scren is not in sub_verbs"),
        (
            "sub_verbs: [kyc.request-documents, kyc.screen]",
            "sub_verbs: kyc.screen",
            "F:25:1: sub_verbs: must be a list",
        ),
        (
            "received: corr_documents",
            "received: corr_d",
            "F:29:12: messages.documents-received: corr_d is not declared in",
        ),
        ("initial: false", "initial: 0", "F:27:39: flags.orch_docs_received.initial: must be of type boolean, not int"),
        (", initial: false", "", "F:27:3: flags.orch_docs_received.initial: is missing"),
        ("orch_review: {", "orch.review: {", "F:28:3: flags.orch.review: 'orch.review' is not a flag's name"),
        (
            "${state.entity_ref}",
            "${domain.x}",
            "F:17:3: correlation.business_key: '${domain.x}' is not a text with places",
        ),
        ("owner: kyc team", 'owner: ""', "F:36:1: owner: '' is not a text of 1 to 1000 characters"),
        ("owner: kyc team", "owner: 5", "F:36:1: owner: must be a text"),
        ("owner: kyc team", "verb: again.twice", "F:36:1: verb: the key verb was already given in line 1"),
    ],
)
@pytest.mark.req("REG-13", "REG-15")
def test_every_mistake_is_told_with_file_line_and_field(
    tmp_path: Path, written: str, instead: str, problem: str
) -> None:
    assert written in OPEN_CASE

    found = problems_of(tmp_path, OPEN_CASE.replace(written, instead, 1))

    assert any(line.startswith(problem) for line in found), found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "F:1:1: must be a mapping"),
        ("- 1", "F:1:1: must be a mapping"),
        ("verbs: 5", "F:1:1: verbs: must be a list"),
        ("verbs: [5]", "F:1:9: verbs[0]: must be a mapping"),
        ("verbs: []\nmore: 1", "F:2:1: more: unknown field"),
        ("a: &x 1\nb: *x", "F:1:4: a: anchors and aliases are not allowed; write the value out"),
        ("verb: kyc.direct\nmode: magic", "F:2:1: mode: must be transactional or external"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems_of(tmp_path, text)


@pytest.mark.req("REG-13")
def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, SMALL.replace("version: 2", "version: x"), "a.yaml")
    write(tmp_path, SMALL, "b.yaml")
    write(tmp_path, SMALL, "c.yaml")
    write(tmp_path, SMALL.replace("kyc.small", "kyc.other"), "d.yaml")
    (tmp_path / "e.yaml").write_bytes(b"\xff")

    with pytest.raises(ContractInvalid) as caught:
        workflow_verbs(load_verbs(tmp_path))

    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "a.yaml:2:1: version: must be an integer",
        "c.yaml:1:1: verb: the verb kyc.small is declared twice",
        "d.yaml:4:1: process: the process kyc-small already belongs to kyc.small",
        "e.yaml:1:1: the file is not UTF-8",
    ]


@pytest.mark.req("REG-06")
def test_arguments_become_the_first_data(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert verb.initial_data({"entity": "Allianz GmbH", "pages": 3}) == {
        "entity_ref": "Allianz GmbH",
        "case": {"kind": "onboarding", "pages": 3},
    }
    assert verb.initial_data({"entity": "x", "case-type": "periodic-review"})["case"] == {"kind": "periodic-review"}


@pytest.mark.req("REG-06")
def test_the_last_data_become_the_outcome(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert verb.outcome_of({"review": {"decision": "approved"}, "case": "closed"}) == {"decision": "approved"}
    assert verb.outcome_of({"review": {"decision": None}}) == {"decision": None}


@pytest.mark.req("REG-03")
def test_good_arguments_have_no_problems(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert verb.problems({"entity": "x", "case-type": "onboarding", "pages": 1, "score": 0.5, "urgent": True}) == {}
    assert verb.problems({"entity": "x", "score": 2}) == {}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "the argument entity is missing"),
        ({"entity": 5}, "the argument entity must be of type string"),
        ({"entity": "x", "case-type": "other"}, "the argument case-type must be one of periodic-review, onboarding"),
        ({"entity": "x", "case-type": 1}, "the argument case-type must be of type enum"),
        ({"entity": "x", "pages": True}, "the argument pages must be of type integer"),
        ({"entity": "x", "pages": 2**53}, "the argument pages is beyond 2^53-1"),
        ({"entity": "x", "score": float("nan")}, "the argument score must be of type number"),
        ({"entity": "x", "urgent": "yes"}, "the argument urgent must be of type boolean"),
        ({"entity": "x", "Fax": 1}, "there is no argument 'Fax'"),
    ],
)
@pytest.mark.req("REG-03")
def test_each_bad_argument_is_told_in_a_sentence(tmp_path: Path, args: dict[str, Any], problem: str) -> None:
    assert list(load_one(tmp_path, OPEN_CASE).problems(args).values()) == [problem]


@pytest.mark.req("REG-01")
def test_a_sentence_is_played_back_with_its_arguments(tmp_path: Path) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    assert verb.say({"entity": "Allianz GmbH", "case-type": "periodic-review"}) == (
        "Open a periodic-review case for Allianz GmbH"
    )
    assert verb.say({"entity": "Allianz GmbH"}) == "Open a … case for Allianz GmbH"


@pytest.mark.req("REG-15")
def test_the_linter_reads_the_same_file_alike(tmp_path: Path) -> None:
    write(tmp_path, OPEN_CASE)
    write(
        tmp_path,
        "version: 1\npolicies:\n"
        + "".join(
            f"  - name: {name}\n"
            "    schedule_to_close_timeout_seconds: 60\n"
            "    start_to_close_timeout_seconds: 6\n"
            "    retry: {maximum_attempts: 1, initial_interval_seconds: 1, maximum_interval_seconds: 1, "
            "backoff_coefficient: 1}\n"
            for name in ("standard", "patient")
        ),
        "policies.yaml",
    )

    linted = read_contracts(tmp_path).workflows["kyc.open-case"]
    (loaded,) = workflow_verbs(load_verbs(tmp_path))

    assert (linted.name, linted.version, linted.process) == (loaded.name, loaded.version, loaded.process)
    assert (linted.sub_verbs, linted.correlation) == (loaded.sub_verbs, loaded.correlation)
    assert {name: flag.initial for name, flag in linted.flags.items()} == loaded.flag_contract.initial()
    assert (
        linted.errors == loaded.errors == {"kyc.screen": ("SANCTIONS_HIT", "name unclear"), "kyc.request-documents": ()}
    )
    assert {name: gate.task for name, gate in linted.gates.items()} == {n: g.task for n, g in loaded.gates.items()}


@pytest.mark.parametrize(
    "name", ["Kyc.open", "kyc", "kyc.open_case", "kyc..open", "kyc.open-", "1kyc.open", "kyc.open\n"]
)
@pytest.mark.req("REG-15")
def test_the_linter_refuses_the_same_names(tmp_path: Path, name: str) -> None:
    write(tmp_path, SMALL.replace("kyc.small", json.dumps(name)))

    with pytest.raises(ContractInvalid):
        workflow_verbs(load_verbs(tmp_path))
    with pytest.raises(ContractError):
        read_contracts(tmp_path)


@pytest.mark.parametrize(
    "errors",
    [
        "{kyc.screen: LATE}",
        "{kyc.screen: 5}",
        "{kyc.screen: }",
        "{kyc.screen: [5]}",
        '{kyc.screen: [""]}',
        '{kyc.screen: [" LATE"]}',
        '{kyc.screen: ["LÄTE"]}',
        "{kyc.screen: [LATE, LATE]}",
        f"{{kyc.screen: [{'x' * 201}]}}",
        "{kyc.unlisted: [LATE]}",
        "[kyc.screen]",
    ],
)
def test_both_readers_refuse_the_same_error_codes(tmp_path: Path, errors: str) -> None:
    write(tmp_path, f"{SMALL}sub_verbs: [kyc.screen]\nerrors: {errors}\n")

    with pytest.raises(ContractInvalid, match="errors"):
        workflow_verbs(load_verbs(tmp_path))
    with pytest.raises(ContractError, match="errors"):
        read_contracts(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        # The linter read these and the runtime did not.
        SMALL.replace("version: 2", "version: 1000000000"),
        SMALL + "policy: not a name\n",
        SMALL + "flags:\n",
        SMALL + "sub_verbs:\n",
        SMALL + "gates: {not an id: {}}\n",
        SMALL + f"gates: {{review: {{decisions: [{'x' * 201}]}}}}\n",
        SMALL + 'flags: {orch_a: {type: string, initial: "\\0"}}\n',
        SMALL + f"flags: {{orch_a: {{type: string, initial: {'x' * 1001}}}}}\n",
        SMALL + "args: {entity: {type: text}}\n",
        SMALL + 'sentences: {step: "About {whom}"}\n',
        SMALL + "wait: forever\n",
        SMALL + "payload: {budget: 1}\n",
        SMALL + "correlation: {business_key: '${domain.x}'}\n",
        "verb: kyc.direct\nmode: magic\n",
        "verb: kyc.direct\nstrategy:\n",
        "verb: verbworker.compensate\n",
        # The runtime read these and the linter did not.
        SMALL + "gates: {review: {decisions: [approve, approve]}}\n",
        "verb: kyc.direct\nwrites: [a, a]\n",
    ],
)
@pytest.mark.req("REG-15")
def test_what_one_reader_refused_both_refuse(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)

    with pytest.raises(ContractInvalid) as loaded:
        workflow_verbs(load_verbs(tmp_path))
    with pytest.raises(ContractError) as linted:
        read_contracts(tmp_path)

    assert str(loaded.value) == str(linted.value)


@pytest.mark.parametrize(
    "text",
    [
        SMALL + "policy:\nowner:\nsummary:\nsentences:\n",
        SMALL + "gates: {review: {task: , audience: }}\ncorrelation: {business_key: }\npayload: {schema: }\n",
        "verb: kyc.direct\nmode:\nwrites:\non_unknown:\n",
    ],
)
def test_what_may_be_left_out_may_be_left_empty(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)

    contracts = read_contracts(tmp_path)

    assert all(verb.policy is None for verb in contracts.workflows.values())
    assert all(verb.writes is None for verb in contracts.directs.values())


@pytest.mark.parametrize("place", ["nowhere", "kyc.yaml"])
def test_a_folder_that_is_none_holds_no_contracts_by_mistake(tmp_path: Path, place: str) -> None:
    write(tmp_path, OPEN_CASE, "kyc.yaml")

    with pytest.raises(ContractInvalid, match=f"{place}: there is no such folder of verb contracts"):
        workflow_verbs(load_verbs(tmp_path / place))


# ---- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PRX-21", "PRX-22", "REG-05")
def test_a_business_key_is_made_of_the_first_data_and_of_arguments(tmp_path: Path) -> None:
    text = OPEN_CASE.replace(
        "${state.entity_ref}", "${args.case_type}/${state.case.pages}/${state.entity_ref}/${args.urgent}"
    )
    verb = load_one(tmp_path, text)
    args = {"case-type": "onboarding", "urgent": True}

    assert verb.business_key_of({"entity_ref": "ACME", "case": {"pages": 3}}, args) == "onboarding/3/ACME/true"


@pytest.mark.req("REG-05")
@pytest.mark.parametrize("business_key", ['  business_key: "${state.entity_ref}"\n', ""])
def test_an_instance_is_tied_to_its_entry_its_tenant_and_if_declared_to_a_business_key(
    tmp_path: Path, business_key: str
) -> None:
    declared = OPEN_CASE.replace('  business_key: "${state.entity_ref}"\n', business_key)
    verb = load_one(tmp_path, declared.replace("  integrity: signed\n", ""))
    entry_id, uid = uuid4(), uuid4()

    begun = begin(
        verb, {"entity_ref": "ACME"}, instance_uid=uid, entry_id=entry_id, tenant_id="t1", at=datetime.now(UTC)
    )

    assert begun.business_key == ("ACME" if business_key else None)
    assert {name: begun.variables[name] for name in (ENTRY_ID, TENANT_ID, INSTANCE_UID)} == {
        ENTRY_ID: str(entry_id),
        TENANT_ID: "t1",
        INSTANCE_UID: str(uid),
    }


@pytest.mark.req("TPL-04", "TPL-05", "PRX-22")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({}, "AmeideTemplateMissingPath"),
        ({"entity_ref": None}, "AmeideTemplateMissingPath"),
        ({"entity_ref": {"name": "x"}}, "AmeideTemplateMissingPath"),
        ({"entity_ref": ""}, "AmeideTemplateEmpty"),
    ],
)
def test_a_business_key_that_cannot_be_made_begins_nothing(tmp_path: Path, data: dict[str, Any], code: str) -> None:
    verb = load_one(tmp_path, OPEN_CASE)

    with pytest.raises(PermanentContract, match=r"the business key \$\{state.entity_ref\}") as refused:
        verb.business_key_of(data, {})

    assert refused.value.code == code


def test_the_last_value_of_the_outcome_flag_names_how_a_case_ended(tmp_path: Path) -> None:
    verb = replace(load_one(tmp_path, OPEN_CASE), outcome_flag="orch_review")

    assert verb.outcome_name({"orch_review": "approved"}) == "approved"
    assert verb.outcome_name({"orch_review": "pending"}) is None
    assert verb.outcome_name({}) is None
    assert load_one(tmp_path, OPEN_CASE).outcome_name({"orch_review": "approved"}) is None
