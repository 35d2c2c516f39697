"""Contracts: what verbs promise, read from YAML, and every mistake in them named with its place."""

from pathlib import Path

import pytest

from verblint.contracts.contract import Argument, Choice, Contracts, Flag, FlagType, Gate, GateFact, GateInput
from verblint.contracts.contract_files import ContractError, read_contracts, read_verbs
from verblint.contracts.strict_yaml import ContractFault

HERE = Path(__file__).parent / "contracts"

WORKFLOW = """\
verb: kyc.open
version: 1
strategy: workflow
process: kyc-open
sub_verbs: [kyc.ask]
"""
POLICIES = """\
version: 1
policies:
  - name: standard
    schedule_to_close_timeout_seconds: 600
    start_to_close_timeout_seconds: 60
    retry: {maximum_attempts: 3, initial_interval_seconds: 1, maximum_interval_seconds: 60, backoff_coefficient: 2.0}
"""


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def faults(folder: Path, **files: str) -> list[ContractFault]:
    with pytest.raises(ContractError) as caught:
        read_contracts(written(folder, **files))
    return list(caught.value.faults)


def only_fault(folder: Path, **files: str) -> ContractFault:
    (fault,) = faults(folder, **files)
    return fault


# The example in full


@pytest.fixture(scope="module")
def kyc() -> Contracts:
    return read_contracts(HERE)


@pytest.mark.req("REG-04", "REG-07", "REG-11")
def test_a_workflow_verb_names_its_process_its_sub_verbs_and_what_undoes_them(kyc: Contracts) -> None:
    verb = kyc.of_process("kyc-open-case")

    assert verb is not None
    assert (verb.name, verb.version) == ("kyc.open-case", 1)
    assert "kyc.request-documents" in verb.sub_verbs
    assert verb.compensation["kyc.request-documents"] == "kyc.withdraw-document-request"
    assert str(verb.origin) == f"{HERE}/kyc/open-case.yaml:1:1"


@pytest.mark.req("REG-08", "ORC-02")
def test_flags_have_a_type_and_a_value_from_the_start(kyc: Contracts) -> None:
    verb = kyc.workflows["kyc.open-case"]
    flags = verb.flags

    values = ("pending", "approved", "rejected", "more-info")
    assert flags["orch_review_outcome"] == Flag("orch_review_outcome", FlagType.ENUM, "pending", values)
    assert str(verb.origin.at("flags", "orch_review_outcome")) == f"{HERE}/kyc/open-case.yaml:35:3"
    assert {name: (str(flag.type), flag.initial) for name, flag in flags.items()} == {
        "orch_review_outcome": ("enum", "pending"),
        "orch_docs_received": ("boolean", False),
        "orch_escalation_required": ("boolean", False),
        "orch_sub_verb_count": ("integer", 0),
        "orch_document_deadline": ("string", "P5D"),
    }


@pytest.mark.req("LNT-13")
def test_messages_are_tied_to_correlation_keys(kyc: Contracts) -> None:
    verb = kyc.workflows["kyc.open-case"]

    assert list(verb.correlation) == ["corr_documents"]
    assert verb.messages == {"documents-received": "corr_documents"}


@pytest.mark.req("REG-10", "POL-02")
def test_every_sub_verb_runs_under_a_policy(kyc: Contracts) -> None:
    verb = kyc.workflows["kyc.open-case"]

    assert verb.policy_of("kyc.request-documents") == "patient"
    assert verb.policy_of("kyc.close-case") == "standard"
    assert kyc.policies["patient"].attempts == 5
    assert str(kyc.policies["patient"].origin) == f"{HERE}/policies.yaml:13:5"


def test_gates_stand_at_user_tasks(kyc: Contracts) -> None:
    gates = kyc.workflows["kyc.open-case"].gates

    assert gates == {"review": Gate("review", "Review", ("approve", "reject", "ask-again"), gates["review"].audience)}


def test_gates_say_who_decides(tmp_path: Path) -> None:
    gates = "gates: {check: {}, review: {audience: [lead, legal team], four_eyes: true, distinct_from: [check]}}\n"
    verbs = read_contracts(written(tmp_path, open=WORKFLOW + gates)).workflows["kyc.open"].gates

    assert (verbs["check"].roles, verbs["check"].four_eyes) == ((), False)
    assert verbs["review"].roles == ("lead", "legal team")
    assert (verbs["review"].four_eyes, verbs["review"].distinct_from) == (True, ("check",))


def test_gates_show_facts(tmp_path: Path) -> None:
    rows = "[{field: amount, label: Amount, format: money, currency: EUR}, {field: seen.papers, label: Papers}]"
    (gate,) = (
        read_contracts(written(tmp_path, open=f"{WORKFLOW}gates: {{review: {{show: {rows}}}}}\n"))
        .workflows["kyc.open"]
        .gates.values()
    )

    assert gate.show == (GateFact("amount", "Amount", "money", "EUR"), GateFact("seen.papers", "Papers"))


def test_gates_offer_decisions_with_a_look_and_fields(tmp_path: Path) -> None:
    offered = "{name: 'yes', label: Pay, tone: positive, confirm: 'Sure?'}, 'no'"
    gate = f"{{decisions: [{offered}], inputs: {{n: {{type: date, only_for: ['no']}}}}}}"
    text = f"{WORKFLOW}gates: {{pay: {gate}}}\n"
    found = read_contracts(written(tmp_path, open=text)).workflows["kyc.open"].gates["pay"]

    assert found.decisions == ("yes", "no")
    assert found.choices == (Choice("yes", "Pay", "positive", "Sure?"),)
    assert found.inputs == {"n": GateInput("n", "date", only_for=("no",))}


ASK = "verb: kyc.ask\nwrites: [letter, answer.text]\n"


def test_a_fact_that_no_case_has_is_named_with_its_line(tmp_path: Path) -> None:
    rows = "".join(
        f"      - {{field: {name}, label: X}}\n" for name in ("leter", "letter.page", "answer", "other", "entity")
    )
    head = WORKFLOW + "args: {e: {type: string}}\npayload: {initial: {entity: args.e}}\n"
    found = faults(tmp_path, ask=ASK, open=f"{head}gates:\n  review:\n    show:\n{rows}")

    assert [str(fault).partition("open.yaml")[2] for fault in found] == [
        f":{line}:10: gates.review.show[{index}].field: no verb of this process writes {field}, and payload.initial"
        f" does not have it{hint}"
        for line, index, field, hint in ((11, 0, "leter", "; did you mean letter?"), (14, 3, "other", ""))
    ]


def test_a_verb_that_may_write_anything_may_write_every_fact(tmp_path: Path) -> None:
    gates = "gates: {review: {show: [{field: other, label: X}]}}\n"

    assert read_contracts(written(tmp_path, ask="verb: kyc.ask\n", open=WORKFLOW + gates)).workflows
    assert read_contracts(written(tmp_path, open=WORKFLOW + gates)).workflows


def test_direct_verbs_say_what_they_write(kyc: Contracts) -> None:
    assert kyc.directs["kyc.screen-entity"].writes == ("screening",)
    assert kyc.directs["kyc.read-case"].writes == ()


def test_no_verb_owns_a_process_nobody_declared(kyc: Contracts) -> None:
    assert kyc.of_process("other") is None


# Small files


def test_a_direct_verb_needs_no_more_than_a_name(tmp_path: Path) -> None:
    contracts = read_contracts(written(tmp_path, ask="verb: kyc.ask\n"))

    verb = contracts.directs["kyc.ask"]
    assert (verb.version, verb.writes) == (1, None)


def test_a_folder_without_contracts_is_empty(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("verb: none")
    (tmp_path / "folder.yaml").mkdir()

    assert read_contracts(tmp_path) == Contracts()


def test_policies_may_stand_in_further_files(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(POLICIES)
    verbs = tmp_path / "verbs"
    verbs.mkdir()
    written(verbs, open=WORKFLOW + "policy: standard\n")

    assert list(read_contracts(verbs, [elsewhere]).policies) == ["standard"]


def test_both_endings_are_read_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "one.yml").write_text("verb: kyc.one")
    written(tmp_path, two="verb: kyc.two")

    assert sorted(read_contracts(tmp_path).directs) == ["kyc.one", "kyc.two"]


def test_verbs_may_be_read_without_policies(tmp_path: Path) -> None:
    folder = written(tmp_path, open=WORKFLOW + "policy: standard\n", policies="version: nonsense\n")

    contracts = read_verbs(folder)

    assert (list(contracts.workflows), contracts.policies) == (["kyc.open"], {})


# Values


@pytest.mark.parametrize(
    ("flag", "value", "code"),
    [
        (Flag("orch_a", FlagType.BOOLEAN, False), 0, "FlagTypeWrong"),
        (Flag("orch_a", FlagType.INTEGER, 0), 2**53, "FlagOutOfRange"),
        (Flag("orch_a", FlagType.ENUM, "x", ("x",)), "y", "FlagValueUnknown"),
        (Flag("orch_a", FlagType.STRING, ""), "x" * 1001, "TextTooLong"),
        (Flag("orch_a", FlagType.STRING, ""), "\ud800", "LoneSurrogate"),
        (Flag("orch_a", FlagType.STRING, ""), "\0", "NulCharacter"),
        (Flag("orch_a", FlagType.STRING, ""), "x" * 1000, None),
        (Flag("orch_a", FlagType.INTEGER, 0), 2**53 - 1, None),
    ],
)
def test_a_flag_says_why_a_value_does_not_fit(flag: Flag, value: object, code: str | None) -> None:
    misfit = flag.find_misfit(value)

    assert (misfit.code if misfit is not None else None) == code


def test_the_values_of_a_flag_are_distinct() -> None:
    assert Flag("orch_a", FlagType.ENUM, "x", ("x", "x")).find_problem() == ("values", "a value is listed twice")


@pytest.mark.parametrize(
    ("type", "value", "words"),
    [
        ("string", "x", None),
        ("boolean", True, None),
        ("integer", True, "must be of type integer"),
        ("integer", 2**53, "is beyond 2^53-1"),
        ("number", 2, None),
        ("number", 0.5, None),
        ("number", float("nan"), "must be of type number"),
        ("number", float("inf"), "must be of type number"),
    ],
)
def test_an_argument_says_why_a_value_does_not_fit(type: str, value: object, words: str | None) -> None:
    assert Argument(type).find_misfit(value) == words


# Mistakes


def test_a_typo_is_named_with_what_was_meant(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, open=WORKFLOW + "compensaton: {}\n")

    assert str(fault) == f"{tmp_path}/open.yaml:6:1: compensaton: unknown field; did you mean compensation?"


def test_a_field_nobody_knows_is_named_plainly(tmp_path: Path) -> None:
    assert only_fault(tmp_path, open=WORKFLOW + "zzz: 1\n").message == "unknown field"


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("", "", "must be a mapping"),
        ("- a\n- b\n", "", "must be a mapping"),
        ("version: 1\n", "verb", "is missing"),
        ("verb: Kyc\n", "verb", "a verb's name"),
        ("verb: 3\n", "verb", "must be a text"),
        ("verb: ''\n", "verb", "a verb's name"),
        ("verb: kyc.x\nstrategy: durable\n", "strategy", "direct or workflow"),
        ("verb: kyc.x\nversion: 0\n", "version", "between 1 and"),
        ("verb: kyc.x\nversion: true\n", "version", "an integer"),
        ("verb: kyc.x\nversion: one\n", "version", "an integer"),
        ("verb: kyc.x\nwrites: a\n", "writes", "must be a list"),
        ("verb: kyc.x\nwrites: [a, b c]\n", "writes[1]", "a payload field"),
        ("verb: kyc.x\nwrites: [a, a]\n", "writes[1]", "listed twice"),
        ("verb: kyc.x\nprocess: p\n", "process", "unknown field"),
        ("verb: kyc.x\nx: &a 1\n", "x", "anchors"),
        ("verbs: {}\n", "verbs", "must be a list"),
        ("verbs: [x]\n", "verbs[0]", "must be a mapping"),
        ("verbs: []\nmore: 1\n", "more", "unknown field"),
        (WORKFLOW.replace("process: kyc-open\n", ""), "process", "is missing"),
        (WORKFLOW.replace("version: 1\n", ""), "version", "is missing"),
        (WORKFLOW.replace("kyc-open\n", "kyc open\n"), "process", "an element id"),
        (WORKFLOW + "flags: [a]\n", "flags", "must be a mapping"),
        (WORKFLOW + "flags: {review: {type: boolean, initial: true}}\n", "flags.review", "a flag's name"),
        (WORKFLOW + "flags: {orch_a: {type: float, initial: x}}\n", "flags.orch_a.type", "boolean, integer"),
        (WORKFLOW + "flags: {orch_a: {type: enum, initial: x}}\n", "flags.orch_a.values", "only an enum"),
        (
            WORKFLOW + "flags: {orch_a: {type: string, values: [a], initial: x}}\n",
            "flags.orch_a.values",
            "only an enum",
        ),
        (
            WORKFLOW + 'flags: {orch_a: {type: enum, values: ["a\\"b"], initial: x}}\n',
            "flags.orch_a.values[0]",
            "ASCII",
        ),
        (
            WORKFLOW + "flags: {orch_a: {type: enum, values: [a], initial: b}}\n",
            "flags.orch_a.initial",
            "must be one of a",
        ),
        (WORKFLOW + "flags: {orch_a: {type: boolean}}\n", "flags.orch_a.initial", "is missing"),
        (WORKFLOW + "flags: {orch_a: {type: integer, initial: true}}\n", "flags.orch_a.initial", "of type integer"),
        (WORKFLOW + "flags: {orch_a: {type: string, initial: 3}}\n", "flags.orch_a.initial", "of type string"),
        (WORKFLOW + "correlation: {keys: {case: x}}\n", "correlation.keys.case", "a correlation key's name"),
        (WORKFLOW + "correlation: {key: x}\n", "correlation.key", "did you mean keys?"),
        (WORKFLOW + "messages: {done: corr_x}\n", "messages.done", "not declared in correlation.keys"),
        (WORKFLOW + "args: {n: {type: int}}\n", "args.n.type", "must be string, integer, number, boolean or enum"),
        (WORKFLOW + "flags: {orch_a: {type: int, initial: 1}}\n", "flags.orch_a.type", "must be"),
        (WORKFLOW + "outcome: orch_a\n", "outcome", "orch_a is not declared in flags"),
        (WORKFLOW + "outcome: done\n", "outcome", "is not"),
        (WORKFLOW + "gates: {a: {audience: 'x,y'}}\n", "gates.a.audience", "is not a role"),
        (WORKFLOW + "gates: {a: {audience: [x, ' y']}}\n", "gates.a.audience[1]", "is not a role"),
        (WORKFLOW + "gates: {a: {audience: [x, x]}}\n", "gates.a.audience[1]", "listed twice"),
        (WORKFLOW + "gates: {a: {audience: {x: y}}}\n", "gates.a.audience", "must be a text"),
        (WORKFLOW + "gates: {a: {audience: reader}}\n", "gates.a.audience", "may only look"),
        (WORKFLOW + "gates: {a: {four_eyes: maybe}}\n", "gates.a.four_eyes", "true or false"),
        (WORKFLOW + "gates: {check: {}, b: {distinct_from: [chek]}}\n", "gates.b.distinct_from[0]", "mean check?"),
        (WORKFLOW + "gates: {a: {distinct_from: a}}\n", "gates.a.distinct_from", "must be a list"),
        (WORKFLOW + "gates: {a: {show: {x: y}}}\n", "gates.a.show", "must be a list"),
        (WORKFLOW + "gates: {a: {show: [{field: x}]}}\n", "gates.a.show[0].label", "is missing"),
        (WORKFLOW + "gates: {a: {show: [{field: 'x y', label: X}]}}\n", "gates.a.show[0].field", "a payload field"),
        (WORKFLOW + "gates: {a: {show: [{field: x, label: ''}]}}\n", "gates.a.show[0].label", "one line"),
        (
            WORKFLOW + "gates: {a: {show: [{field: x, label: X, frmat: date}]}}\n",
            "gates.a.show[0].frmat",
            "mean format?",
        ),
        (
            WORKFLOW + "gates: {a: {show: [{field: x, label: X, format: html}]}}\n",
            "gates.a.show[0].format",
            "must be text, money, date, datetime, number, yes/no, list or link",
        ),
        (
            WORKFLOW + "gates: {a: {show: [{field: x, label: X, format: money, currency: Euro}]}}\n",
            "gates.a.show[0].currency",
            "like EUR",
        ),
        (
            WORKFLOW + "gates: {a: {show: [{field: x, label: X, currency: EUR}]}}\n",
            "gates.a.show[0].currency",
            "only the format money",
        ),
        (
            WORKFLOW + "gates: {a: {show: [{field: x, label: X}, {field: x, label: Y}]}}\n",
            "gates.a.show[1]",
            "listed twice",
        ),
        (
            WORKFLOW + "flags: {orch_a: {type: boolean, initial: true}}\noutcome: orch_a\n",
            "outcome",
            "orch_a is not an enum: its values name the outcomes",
        ),
        (WORKFLOW + "compensation: {kyc.other: kyc.undo}\n", "compensation.kyc.other", "not in sub_verbs"),
        (WORKFLOW + "compensation: {kyc.ask: kyc.open}\n", "compensation.kyc.ask", "is a workflow verb"),
        (WORKFLOW + "policy: fast\n", "policy", "no policy is called fast"),
        (WORKFLOW + "policies: {kyc.ask: fast}\n", "policies.kyc.ask", "no policy is called fast"),
        (WORKFLOW + "gates: {review: {answers: []}}\n", "gates.review.answers", "unknown field"),
        (WORKFLOW + "gates: {a b: {}}\n", "gates.a b", "an element id"),
        (WORKFLOW + "args: {Entity: {type: string}}\n", "args.Entity", "an argument's name"),
        (WORKFLOW + "args: {entity: {type: text}}\n", "args.entity.type", "string, integer, number, boolean or enum"),
        (WORKFLOW + "args: {entity: {type: string, required: 1}}\n", "args.entity.required", "true or false"),
        (WORKFLOW + "args: {entity: {type: enum}}\n", "args.entity", "only an enum"),
        (WORKFLOW + "args: {n: {type: integer, default: x}}\n", "args.n.default", "of type integer"),
        (WORKFLOW + "args: {n: {type: number, default: x}}\n", "args.n.default", "of type number"),
        (WORKFLOW + "args: {e: {type: enum, values: [a], default: b}}\n", "args.e.default", "must be one of a"),
        (
            WORKFLOW + "args: {n: {type: number, required: true, default: 0.5}}\n",
            "args.n.default",
            "a required argument has no default",
        ),
        (WORKFLOW + "sentences: {step: 'Ask {whom}'}\n", "sentences.step", "{whom} is not declared in args"),
        (WORKFLOW + "sentences: {step: x, clarify: {whom: Who}}\n", "sentences.clarify.whom", "not declared in args"),
        (WORKFLOW + "payload: {budget: 10}\n", "payload.budget", "between 1024 and 1048576"),
        (WORKFLOW + "payload: {initial: {a: args.b}}\n", "payload.initial.a", "args.b is not declared in args"),
        (WORKFLOW + "payload: {outcome: {a: data.b, a.c: data.c}}\n", "payload.outcome.a", "both a value and"),
        (WORKFLOW + "correlation: {business_key: $}\n", "correlation.business_key", "a text with places"),
        (WORKFLOW + "errors: {kyc.ask: }\n", "errors.kyc.ask", "must be a list"),
        (WORKFLOW + "errors: {kyc.ask: [LATE, LATE]}\n", "errors.kyc.ask[1]", "LATE is listed twice"),
        (
            WORKFLOW + "flags: {orch_a: {type: string, initial: 'x\\0'}}\n".replace("'", '"'),
            "flags.orch_a.initial",
            "U+0000",
        ),
        ("verb: verbworker.ask\n", "verb", "is reserved"),
    ],
)
def test_a_mistake_is_named_with_its_field(tmp_path: Path, text: str, field: str, words: str) -> None:
    found = [fault for fault in faults(tmp_path, one=text) if words in fault.message]

    assert [fault.field for fault in found] == [field]


@pytest.mark.parametrize(
    ("gate", "field", "words"),
    [
        ("decisions: [{label: X}]", "decisions[0].name", "is missing"),
        ("decisions: [{name: x, tone: bad}]", "decisions[0].tone", "must be positive, negative or neutral"),
        ("decisions: [{name: x, labl: X}]", "decisions[0].labl", "mean label?"),
        ("decisions: [x, {name: x}]", "decisions[1]", "listed twice"),
        ("decisions: [3]", "decisions[0]", "must be a text"),
        ("inputs: {n: {}}", "inputs.n.type", "is missing"),
        ("inputs: {n: {type: money}}", "inputs.n.type", "must be amount, comment, date, choice or yes/no"),
        ("inputs: {n: {type: choice}}", "inputs.n", "a choice has values"),
        ("inputs: {n: {type: date, minimum: 1}}", "inputs.n.minimum", "only the type amount"),
        ("inputs: {n: {type: amount, max_length: 1}}", "inputs.n.max_length", "only the type comment"),
        ("inputs: {n: {type: amount, minimum: 2, maximum: 1}}", "inputs.n.maximum", "must not be less than minimum"),
        (
            "decisions: [approve], inputs: {n: {type: date, only_for: [aprove]}}",
            "inputs.n.only_for[0]",
            "mean approve?",
        ),
        ("inputs: {n: {type: date, only_for: [ok]}}", "inputs.n.only_for[0]", "not one of the decisions"),
    ],
)
def test_a_mistake_in_a_decision_form_is_named_with_its_field(
    tmp_path: Path, gate: str, field: str, words: str
) -> None:
    fault = only_fault(tmp_path, one=f"{WORKFLOW}gates: {{a: {{{gate}}}}}\n")

    assert (fault.field, words in fault.message) == (f"gates.a.{field}", True), fault.message


def test_a_decision_has_a_form_of_a_bounded_size(tmp_path: Path) -> None:
    inputs = ", ".join(f"n{number}: {{type: date}}" for number in range(21))
    fault = only_fault(tmp_path, one=f"{WORKFLOW}gates: {{a: {{inputs: {{{inputs}}}}}}}\n")

    assert (fault.field, fault.message) == ("gates.a.inputs", "a decision has at most 20 inputs")


@pytest.mark.req("REG-13")
def test_a_workflow_verb_may_not_call_another(tmp_path: Path) -> None:
    other = WORKFLOW.replace("kyc.open", "kyc.ask").replace("kyc-open", "kyc-ask").replace("[kyc.ask]", "[]")
    fault = only_fault(tmp_path, open=WORKFLOW, other=other)

    assert fault.field == "sub_verbs[0]"
    assert fault.message.startswith("kyc.ask is a workflow verb")


def test_one_verb_is_declared_once(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, one="verb: kyc.ask", two="verb: kyc.ask")

    assert (fault.file, fault.message) == (f"{tmp_path}/two.yaml", "the verb kyc.ask is declared twice")


def test_one_process_belongs_to_one_verb(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, one=WORKFLOW, two=WORKFLOW.replace("kyc.open", "kyc.reopen"))

    assert (fault.field, fault.message) == ("process", "the process kyc-open already belongs to kyc.open")


@pytest.mark.req("POL-03")
@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("[]", "", "must be a mapping"),
        ("version: 2\npolicies: []\n", "version", "must be 1"),
        ("version: 1\n", "policies", "is missing"),
        (POLICIES.replace("attempts: 3", "attempts: 0"), "policies[0].retry.maximum_attempts", "between 1 and"),
        (POLICIES.replace("retry:", "attempts: 3\n    retry:"), "policies[0].attempts", "unknown"),
        (POLICIES + POLICIES.partition("policies:\n")[2], "policies[1].name", "twice"),
    ],
)
def test_a_policy_file_is_checked_too(tmp_path: Path, text: str, field: str, words: str) -> None:
    fault = only_fault(tmp_path, policies=text)

    assert fault.field == field
    assert words in fault.message


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        read_contracts(tmp_path, [tmp_path / "missing.yaml"])

    assert str(caught.value).startswith(f"{tmp_path}/missing.yaml:1:1: cannot be read: ")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, one="verb: Kyc\nwrites: x\n", two="a: &b 1\n")

    assert [fault.field for fault in found] == ["verb", "writes", "a"]
