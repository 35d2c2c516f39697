"""The registry: what may be registered, what may call it, and under which policy it runs."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from verblint.contracts.contract import Sentences
from verbworker.contract.policy import DEFAULT_POLICY, Policy
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Mode, OnUnknown, Result, Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import ContractInvalid


class Case(BaseModel):
    note: str = ""


class Other(BaseModel):
    note: str = ""


async def work(case: Case, call: Call) -> Result[Case]:
    """Do the work.

    More about it.
    """
    return Result(case)


def ask(call: Call, asked: Case) -> Case | None:
    return None


def make_registry(*names: str, **options: Any) -> Registry:
    verbs = Registry()
    for name in names:
        verbs.verb(name, **{"mode": "external", **options})(work)
    return verbs


def make_workflow(name: str = "kyc.open-case", **changes: Any) -> WorkflowVerb:
    workflow = WorkflowVerb(name=name, version=1, process=name.replace(".", "-"), schema=f"{name}/v1")
    return replace(workflow, **changes)


def make_policy(name: str, *, attempts: int = 9) -> Policy:
    retry = DEFAULT_POLICY.retry.model_copy(update={"maximum_attempts": attempts})
    return DEFAULT_POLICY.model_copy(update={"name": name, "retry": retry})


def registered(registry: Registry, name: str) -> Verb:
    verb = registry.find(name)
    assert verb is not None
    return verb


def refusal(attempt: Callable[[], object]) -> str:
    with pytest.raises(ContractInvalid) as caught:
        attempt()
    return str(caught.value)


# ---- the decorator -------------------------------------------------------------------------------------------------


@pytest.mark.req("REG-03", "REG-12")
async def test_a_registered_function_stays_as_it_is() -> None:
    verbs = Registry()
    decorated = verbs.verb("kyc.check", mode="external")(work)

    assert decorated is work
    assert inspect.iscoroutinefunction(decorated)


@pytest.mark.req("REG-03")
def test_a_verb_keeps_what_its_author_said() -> None:
    verbs = Registry()
    verbs.verb(
        "kyc.check",
        mode="external",
        writes=["note"],
        on_unknown="probe",
        idempotency_window=timedelta(hours=6),
        probe=ask,
        concurrency=4,
        max_runs=2,
        policy="slow",
    )(work)
    verb = registered(verbs, "kyc.check")

    assert (verb.mode, verb.on_unknown, verb.model) == (Mode.EXTERNAL, OnUnknown.PROBE, Case)
    assert (verb.writes, verb.idempotency_window) == (("note",), timedelta(hours=6))
    assert (verb.concurrency, verb.max_runs, verb.policy) == (4, 2, "slow")
    assert verb.sentence == "Do the work."


def test_a_verb_without_a_docstring_is_called_by_its_name() -> None:
    verbs = Registry()
    verbs.verb("kyc.ask", mode="external")(ask)

    assert registered(verbs, "kyc.ask").sentence == "kyc.ask"


class Order(NamedTuple):
    """A way to write a verb's parameters."""

    function: Callable[..., Any]
    case_name: str
    call_name: str | None


def _case_alone(subject: Case) -> Case:
    return subject


def _call_first(call: Call, case: Case) -> Case:
    return case


def _named_only(*, about: Case, run: Call) -> Case:
    return about


@pytest.mark.parametrize(
    "order",
    [
        Order(work, "case", "call"),
        Order(_case_alone, "subject", None),
        Order(_call_first, "case", "call"),
        Order(_named_only, "about", "run"),
    ],
)
def test_parameters_are_free_in_order_and_name(order: Order) -> None:
    verbs = Registry()
    verbs.verb("kyc.check", mode="external")(order.function)
    act = registered(verbs, "kyc.check").act
    case: Any = Case()
    call: Any = object()

    named = {order.case_name: case} | ({} if order.call_name is None else {order.call_name: call})
    assert act.arguments(case, call) == named


def test_a_probe_is_called_by_its_own_names() -> None:
    verbs = Registry()
    verbs.verb("kyc.check", mode="external", on_unknown="probe", probe=ask)(work)
    probe = registered(verbs, "kyc.check").probe
    case: Any = Case()
    call: Any = object()

    assert probe is not None
    assert probe.arguments(case, call) == {"asked": case, "call": call}


@pytest.mark.parametrize(
    ("function", "options", "needs"),
    [
        (work, {}, False),
        (ask, {}, True),
        (work, {"on_unknown": "probe", "probe": ask}, True),
        (work, {"on_unknown": "probe", "probe": work}, False),
    ],
)
def test_what_is_not_async_needs_threads(function: Any, options: Any, needs: bool) -> None:
    verbs = Registry()
    verbs.verb("kyc.check", mode="external", **options)(function)

    assert registered(verbs, "kyc.check").needs_threads is needs


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "check", "Kyc.check", "kyc.", ".check", "kyc..check", "kyc.-a", "kyc check", "k.1a"]
)
def test_a_bad_name_is_refused(name: str) -> None:
    assert "is not a verb name" in refusal(lambda: make_registry(name))


def test_the_runtimes_own_names_are_refused() -> None:
    assert "reserved" in refusal(lambda: make_registry("verbworker.compensate"))


def test_a_name_is_registered_once() -> None:
    assert "registered twice" in refusal(lambda: make_registry("kyc.check", "kyc.check"))


def test_a_workflow_verbs_name_is_no_direct_verbs_name() -> None:
    direct = make_registry("kyc.open-case")

    assert "registered twice" in refusal(lambda: direct.declare(make_workflow()))
    assert "registered twice" in refusal(lambda: Registry.of(Registry().declare(make_workflow()), direct))


def test_a_workflow_verb_is_declared_once() -> None:
    assert "registered twice" in refusal(lambda: Registry().declare(make_workflow(), make_workflow()))


def test_a_process_belongs_to_one_workflow_verb() -> None:
    two = (make_workflow("kyc.a", process="p"), make_workflow("kyc.b", process="p"))

    assert "belongs to two workflow verbs" in refusal(lambda: Registry().declare(*two))


def test_a_sync_function_has_no_transaction() -> None:
    assert "must be an async function" in refusal(lambda: Registry().verb("kyc.check", mode="transactional")(ask))


@pytest.mark.parametrize("on_unknown", ["hold", "probe"])
def test_a_transactional_verb_has_no_unknown_outcome(on_unknown: Any) -> None:
    options: Any = {"on_unknown": on_unknown, "probe": ask if on_unknown == "probe" else None}

    assert "never unknown" in refusal(lambda: make_registry("kyc.check", mode="transactional", **options))


@pytest.mark.parametrize("options", [{"on_unknown": "probe"}, {"probe": ask}, {"on_unknown": "hold", "probe": ask}])
def test_a_probe_and_its_word_belong_together(options: Any) -> None:
    assert "belong together" in refusal(lambda: make_registry("kyc.check", **options))


def test_a_probe_sees_the_case_of_its_verb() -> None:
    def probe(other: Other) -> None: ...

    message = refusal(lambda: make_registry("kyc.check", on_unknown="probe", probe=probe))
    assert message.endswith(": the probe of kyc.check takes Other, but the verb takes Case")


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"max_runs": 0}])
def test_a_verb_runs_at_least_once_and_one_at_a_time(options: Any) -> None:
    assert "at least 1" in refusal(lambda: make_registry("kyc.check", **options))


def test_writes_are_a_list_of_fields_and_no_text() -> None:
    assert "writes=('note',)" in refusal(lambda: make_registry("kyc.check", writes="note"))


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ("NO", "errors=('NO',)"),
        (("",), "is not an error code"),
        ((" NO",), "is not an error code"),
        (("N\nO",), "is not an error code"),
        (("NÖ",), "is not an error code"),
        (("x" * 201,), "is not an error code"),
        ((5,), "is not an error code"),
        (("NO", "OTHER", "NO"), "the error code NO is declared twice"),
    ],
)
def test_error_codes_are_different_printable_texts(errors: Any, words: str) -> None:
    assert words in refusal(lambda: make_registry("kyc.check", errors=errors))


def test_a_verb_says_which_codes_it_ends_with_or_says_nothing() -> None:
    assert registered(make_registry("kyc.check"), "kyc.check").errors is None
    assert registered(make_registry("kyc.check", errors=[]), "kyc.check").errors == ()
    longest = "x" * 200
    assert registered(make_registry("kyc.check", errors=("a b", longest)), "kyc.check").errors == ("a b", longest)


@pytest.mark.parametrize(
    ("verb", "contract", "words"),
    [
        (
            ("NO",),
            None,
            "kyc.check declares that it may end with NO, but the contract of kyc.open-case declares no codes for it;"
            " add errors: {kyc.check: [NO]} to the contract, or leave errors= of the verb out",
        ),
        (
            (),
            None,
            "kyc.check declares that it ends with no error code, but the contract of kyc.open-case declares no codes"
            " for it; add errors: {kyc.check: []} to the contract, or leave errors= of the verb out",
        ),
        (
            None,
            ("NO",),
            "the contract of kyc.open-case declares that kyc.check may end with NO, but the verb declares no codes;"
            " add errors=('NO',) to the verb, or take kyc.check out of the contract's errors",
        ),
        (
            ("NO", "OTHER"),
            ("NO",),
            "the contract of kyc.open-case declares that kyc.check may end with NO, but the verb declares that it may"
            " end with NO, OTHER; write the same codes in both",
        ),
    ],
)
def test_the_contract_and_the_verb_declare_the_same_codes(
    verb: tuple[str, ...] | None, contract: tuple[str, ...] | None, words: str
) -> None:
    written = {} if contract is None else {"kyc.check": contract}
    workflow = make_workflow(sub_verbs=("kyc.check",), errors=written)

    line = work.__code__.co_firstlineno
    said = refusal(make_registry("kyc.check", errors=verb).declare(workflow).check)
    assert said == f"tests/unit/test_registry.py:{line}: {words}"


def test_the_order_of_codes_is_of_no_matter_and_a_verb_that_nobody_registered_is_not_looked_at() -> None:
    errors = {"kyc.check": ("A", "B"), "kyc.elsewhere": ("C",)}
    workflow = make_workflow(sub_verbs=("kyc.check", "kyc.elsewhere"), errors=errors)

    registry = make_registry("kyc.check", errors=("B", "A")).declare(workflow)

    assert registry.check() is registry


def _no_model(call: Call) -> None: ...
def _unhinted(case: Case, extra) -> None: ...  # type: ignore[no-untyped-def]
def _two_models(case: Case, other: Other) -> None: ...
def _two_calls(case: Case, call: Call, again: Call) -> None: ...
def _plain_type(case: int) -> None: ...
def _unnamed(case: Case, /, call: Call) -> None: ...
def _variable(case: Case, *calls: Call) -> None: ...
def _unknown_hint(case: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_no_model, "takes no pydantic model"),
        (_unhinted, "takes 'extra' without a type; a verb takes one pydantic model and a Call"),
        (_two_models, "takes 'other' of type Other; a verb takes one"),
        (_two_calls, "takes 'again' of type Call; a verb takes one"),
        (_plain_type, "takes 'case' of type int; a verb takes one"),
        (_unnamed, "takes 'case' without its name"),
        (_variable, "takes 'calls' without its name"),
        (_unknown_hint, "the type hints of the verb kyc.check cannot be read"),
    ],
)
def test_a_verb_takes_a_model_and_a_call_and_nothing_else(function: Any, words: str) -> None:
    said = refusal(lambda: Registry().verb("kyc.check", mode="external")(function))

    assert words in said
    assert said.startswith(f"tests/unit/test_registry.py:{function.__code__.co_firstlineno}: ")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"mode": "transactionl"}, "mode='transactionl' is not one of transactional, external"),
        ({"on_unknown": "again"}, "on_unknown='again' is not one of rerun, probe, hold"),
        ({"max_runs": 0}, "concurrency and max_runs are at least 1"),
    ],
)
def test_an_option_that_is_refused_has_its_place_and_its_choices(option: Any, words: str) -> None:
    said = refusal(lambda: Registry().verb("kyc.check", **{"mode": "external"} | option)(work))

    assert said == f"tests/unit/test_registry.py:{work.__code__.co_firstlineno}: kyc.check: {words}"


# ---- merging and looking up ----------------------------------------------------------------------------------------


@pytest.mark.req("REG-15")
def test_registries_are_merged_by_name() -> None:
    left = make_registry("kyc.check").declare(make_workflow(), policies=[make_policy("slow")])
    right = make_registry("kyc.screen").declare(policies=[make_policy("slow"), make_policy("quick")])
    merged = Registry.of(left, right)

    assert [verb.name for verb in merged] == ["kyc.check", "kyc.screen"]
    assert list(merged.workflows) == ["kyc.open-case"]
    assert "kyc.check" in merged
    assert "kyc.open-case" in merged
    assert "kyc.gone" not in merged


def test_merging_leaves_the_parts_as_they_were() -> None:
    left, right = make_registry("kyc.check"), make_registry("kyc.screen")
    Registry.of(left, right)

    assert [verb.name for verb in left] == ["kyc.check"]
    assert [verb.name for verb in right] == ["kyc.screen"]


def test_a_name_in_two_parts_is_refused() -> None:
    left, right = make_registry("kyc.check"), make_registry("kyc.check")

    assert "registered twice" in refusal(lambda: Registry.of(left, right))


def test_one_policy_name_has_one_meaning() -> None:
    two = [make_policy("slow", attempts=2), make_policy("slow", attempts=3)]

    assert "the policy slow is defined twice" in refusal(lambda: Registry().declare(policies=two))


def test_a_workflow_verb_is_not_found_as_a_direct_one() -> None:
    assert Registry().declare(make_workflow()).find("kyc.open-case") is None


def test_a_process_leads_to_its_workflow_verb() -> None:
    workflow = make_workflow()
    registry = Registry().declare(workflow)

    assert registry.workflow_of("kyc-open-case") is workflow
    assert registry.workflow_of("kyc-other") is None


@pytest.mark.req("REG-07", "REG-11")
def test_callers_are_those_that_list_a_verb_to_do_or_to_undo() -> None:
    registry = make_registry("kyc.check", "kyc.undo", "kyc.idle").declare(
        make_workflow("kyc.a", sub_verbs=("kyc.check",)),
        make_workflow("kyc.b", sub_verbs=("kyc.check",), compensation={"kyc.check": "kyc.undo"}),
    )

    assert [workflow.name for workflow in registry.callers("kyc.check")] == ["kyc.a", "kyc.b"]
    assert [workflow.name for workflow in registry.callers("kyc.undo")] == ["kyc.b"]
    assert registry.callers("kyc.idle") == []


# ---- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.req("REG-13")
@pytest.mark.parametrize("listed", [{"sub_verbs": ("kyc.other",)}, {"compensation": {"kyc.check": "kyc.other"}}])
def test_a_workflow_verb_may_not_call_another(listed: Any) -> None:
    registry = Registry().declare(make_workflow(**listed), make_workflow("kyc.other"))

    assert refusal(registry.check) == (
        "kyc.open-case lists the workflow verb kyc.other; a workflow verb calls direct verbs only"
    )


@pytest.mark.req("POL-04")
@pytest.mark.parametrize("named", [{"policy": "gone"}, {"policies": {"kyc.check": "gone"}}])
def test_a_workflow_verb_names_a_policy_that_exists(named: Any) -> None:
    registry = Registry().declare(make_workflow(**named))

    assert refusal(registry.check) == (
        "the verb kyc.open-case names the policy gone, which no loaded policies file has; no policies are loaded"
    )


@pytest.mark.req("POL-04")
def test_the_default_is_named_only_where_a_file_defines_it() -> None:
    registry = Registry().declare(make_workflow(policy="default"))

    assert refusal(registry.check) == (
        "the verb kyc.open-case names the policy default, which no loaded policies file has; no policies are loaded"
    )
    assert registry.declare(policies=[make_policy("default")]).check() is registry


@pytest.mark.req("POL-04")
def test_a_verb_names_a_policy_that_exists() -> None:
    registry = make_registry("kyc.check", policy="gone").declare(policies=[make_policy("slow"), make_policy("quick")])

    assert refusal(registry.check).endswith(
        ": the verb kyc.check names the policy gone, which no loaded policies file has; known are quick, slow"
    )
    assert refusal(registry.check).startswith("tests/unit/test_registry.py:")


def test_a_registry_that_fits_together_is_handed_back() -> None:
    registry = make_registry("kyc.check", policy="slow")
    registry.declare(make_workflow(policy="slow", sub_verbs=("kyc.check",)), policies=[make_policy("slow")])

    assert registry.check() is registry


@pytest.mark.req("REG-10", "POL-06")
def test_the_workflows_word_on_policy_comes_before_the_verbs_own() -> None:
    registry = make_registry("kyc.check", policy="own").declare(policies=[make_policy("own"), make_policy("theirs")])
    verb = registered(registry, "kyc.check")

    def chosen(workflow: WorkflowVerb | None) -> str:
        return registry.policy_of(verb, workflow).name

    assert chosen(make_workflow(policy="own", policies={"kyc.check": "theirs"})) == "theirs"
    assert chosen(make_workflow(policy="theirs")) == "theirs"
    assert chosen(make_workflow()) == "own"
    assert chosen(None) == "own"


def test_where_nobody_names_a_policy_the_default_applies() -> None:
    registry = make_registry("kyc.check")

    assert registry.policy_of(registered(registry, "kyc.check"), make_workflow()) is DEFAULT_POLICY


CONTRACT = """
verb: kyc.open-case
version: 1
strategy: workflow
process: kyc
sub_verbs: [kyc.check]
payload: {schema: kyc.open-case/v1}
policy: slow
"""
POLICIES = """
version: 1
policies:
  - name: slow
    schedule_to_close_timeout_seconds: 60
    start_to_close_timeout_seconds: 6
    retry: {maximum_attempts: 2, initial_interval_seconds: 1, maximum_interval_seconds: 2, backoff_coefficient: 2}
"""


@pytest.mark.req("REG-15", "POL-01")
def test_loading_adds_what_a_folder_has_and_the_policies_it_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "kyc.yaml").write_text(CONTRACT)
    (tmp_path / "policies.yaml").write_text(POLICIES)
    registry = make_registry("kyc.check")

    assert registry.load(tmp_path, policies=tmp_path / "policies.yaml").check() is registry
    assert registry.policy_of(registered(registry, "kyc.check"), registry.workflow_of("kyc")).name == "slow"


def test_a_policies_file_that_is_not_named_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "kyc.yaml").write_text(CONTRACT)
    (tmp_path / "policies.yaml").write_text(POLICIES)

    assert "names the policy slow" in refusal(Registry().load(tmp_path).check)


SPOKEN = """\
verb: kyc.note
sentences: {step: "Note {note}", clarify: {note: "What is to be noted?"}}
args: {note: {type: string}}
"""


@pytest.mark.req("REG-01", "REG-03")
def test_a_direct_verb_is_said_by_its_contract_also_after_a_merge(tmp_path: Path) -> None:
    (tmp_path / "kyc.yaml").write_text(SPOKEN)
    merged = Registry.of(make_registry("kyc.note").load(tmp_path), make_registry("kyc.other"))

    said, sentences = merged.say("kyc.note", {"note": "a rise"}), merged.sentences_of("kyc.note")
    assert said == "Note a rise"
    assert sentences is not None
    assert sentences.clarify == {"note": "What is to be noted?"}


@pytest.mark.req("REG-01")
def test_a_verb_without_sentences_is_said_by_its_documentation_or_its_name() -> None:
    spoken = make_workflow("kyc.spoken", sentences=Sentences(step="Speak of {whom}"))
    verbs = make_registry("kyc.note").declare(make_workflow("kyc.silent"), spoken)

    said = [verbs.say(name, {"whom": "Ann"}) for name in ("kyc.note", "kyc.silent", "kyc.spoken")]
    assert said == ["Do the work.", "kyc.silent", "Speak of Ann"]


@pytest.mark.parametrize(
    ("contract", "is_internal"),
    [
        ("", True),
        ("verb: kyc.check\nversion: 1\nwrites: [note]\n", True),
        ("verb: kyc.check\nversion: 1\nsentences: {step: Check it}\n", False),
        ("verb: kyc.check\nversion: 1\nargs: {note: {type: string}}\n", False),
    ],
)
def test_a_step_is_started_by_people_only_if_its_contract_is_for_them(
    contract: str, is_internal: bool, tmp_path: Path
) -> None:
    if contract:
        (tmp_path / "check.yaml").write_text(contract)
    flow = make_workflow(sub_verbs=("kyc.check",), compensation={"kyc.check": "kyc.undo"})
    part = make_registry("kyc.check", "kyc.undo", "kyc.alone").load(tmp_path).declare(flow)
    registry = Registry.of(part)

    assert registry.is_internal("kyc.check") is is_internal
    assert registry.is_internal("kyc.undo")
    assert not registry.is_internal("kyc.alone")
    assert not registry.is_internal("kyc.open-case")
    assert not registry.declare(startable=["kyc.undo"]).is_internal("kyc.undo")
