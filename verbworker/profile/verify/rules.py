"""The rules of `verify`: code, slug and page of each, in the form of the linter's rules."""

from collections.abc import Iterator

from verblint.report import Finding, Severity
from verblint.rule import Context, Rule


def _rule(code: str, slug: str, page: str) -> Rule:
    def check(context: Context) -> Iterator[Finding]:
        # Several files are compared, and the linter's own run sees one.
        return iter(())

    check.__doc__ = page
    return Rule(code, slug, Severity.ERROR, check)


LOCK_MISSING = _rule(
    "VF801",
    "lock-missing",
    """A model with the profile has its compile.lock.json beside it.

    The lock records what was compiled from the model, the contract and the policies. Without it their changes do not
    show in a review.

    Wrong:  process.bpmn with ameide:workflowDefinition, alone in its folder
    Right:  process.bpmn and compile.lock.json, written by verbworker verify --write
    """,
)
LOCK_OUTDATED = _rule(
    "VF802",
    "lock-outdated",
    """The lock matches the model, the contract and the policies.

    Every value that differs is a separate finding, at the place where it was changed.

    Wrong:  maximum_attempts: 5 in policies.yaml, and 3 in compile.lock.json
    Right:  the same number in both, after verbworker verify --write
    """,
)
LOCK_BY_ANOTHER_TOOL = _rule(
    "VF803",
    "lock-by-another-tool",
    """The lock was written by the version of verbworker that verifies it.

    What is compiled may differ from version to version, so the version is pinned by the lock.

    Wrong:  "tool": "verbworker 0.1.0" in the lock, and verbworker 0.2.0 installed
    Right:  the version of the lock, or a new lock
    """,
)
LOCK_INVALID = _rule(
    "VF804",
    "lock-invalid",
    """The lock is valid, and its digest matches its content.

    A manual merge may leave an inconsistent file.

    Wrong:  a compile.lock.json with marks of a merge, or with one number changed by hand
    Right:  the file as verbworker verify --write leaves it
    """,
)
GENERATED_OUTDATED = _rule(
    "VF805",
    "generated-outdated",
    """The generated module matches the compiled process.

    Its constants come from the compiled process. A module that was edited or not updated differs.

    Wrong:  kyc_open_case_gen.py without a message that the model waits for
    Right:  the file as verbworker verify --write leaves it
    """,
)
NOT_COMPILED = _rule(
    "VF806",
    "not-compiled",
    """A model with the profile can be compiled.

    It has one executable process, a workflow verb that owns it, and a policy for every name.

    Wrong:  policyRef="patient", and no policies file that has it
    Right:  a policy of that name
    """,
)
DEFINITION_ID_UNCHANGED = _rule(
    "VF807",
    "definition-id-unchanged",
    """A changed process has another definitionId.

    It distinguishes instances. With --base the lock of a git revision is compared: if the digest differs, the
    definitionId must differ too.

    Wrong:  one more task, and still definitionId="kyc-open-case/1"
    Right:  one more task, and definitionId="kyc-open-case/2"
    """,
)
PROCESS_TWICE = _rule(
    "VF808",
    "process-twice",
    """Every model has a lock, a process and a generated module of its own.

    Two models in one folder would overwrite one lock, two files with one process one module.

    Wrong:  processes/kyc/open.bpmn and processes/kyc/close.bpmn
    Right:  processes/kyc-open/process.bpmn and processes/kyc-close/process.bpmn
    """,
)
VERB_UNREGISTERED = _rule(
    "VF811",
    "verb-unregistered",
    """Every verb that a model calls or a contract lists is registered.

    A job without a verb waits forever.

    Wrong:  <zeebe:taskDefinition type="kyc.rate-risk" />, and no @verbs.verb("kyc.rate-risk")
    Right:  a function that is registered under that name
    """,
)
VERB_UNCALLED = _rule(
    "VF812",
    "verb-uncalled",
    """Every registered verb is used.

    A model calls it, an allow-list or a compensation names it, or its own contract has sentences or arguments for
    callers.

    Wrong:  @verbs.verb("kyc.rate-risk"), which no model and no contract names
    Right:  a task that calls it, or less code
    """,
)
VERB_CONTRACT_DIFFERS = _rule(
    "VF813",
    "verb-contract-differs",
    """The registration of a verb matches its contract.

    The linter uses the contract, the worker uses the code.

    Wrong:  writes: [risk] in YAML, and writes=("risk", "rating") in the decorator
    Right:  the same fields in both
    """,
)
POLICY_DIFFERS = _rule(
    "VF814",
    "policy-differs",
    """The application's policies match its files.

    Wrong:  a registry that loads a copy of policies.yaml with other numbers
    Right:  registry.load("verbs", policies="verbs/policies.yaml")
    """,
)
WRITES_UNKNOWN = _rule(
    "VF815",
    "writes-unknown",
    """The fields that a verb declares in `writes` are fields of its model.

    A change of any other field is refused when it happens, with a real case in it.

    Wrong:  writes=("desicion",), and a model with the field decision
    Right:  writes=("decision",)
    """,
)
INITIAL_INCOMPLETE = _rule(
    "VF816",
    "initial-incomplete",
    """What a case starts with has every field that its first verb requires.

    A case without it stops at its first step. Fields with a default, and those that an earlier verb may add, are not
    missing; a model whose own validator sees the data first is not compared.

    Wrong:  payload: {initial: {polcy: args.policy}}, and a model with the required field policy
    Right:  payload: {initial: {policy: args.policy}}
    """,
)
OUTCOME_UNKNOWN = _rule(
    "VF817",
    "outcome-unknown",
    """The fields that an outcome names are fields of the data.

    They are in payload.initial or in the model of a verb that the process may call. Any other is missing from every
    outcome. Models that accept more fields than they declare may have any.

    Wrong:  payload: {outcome: {status: data.stat}}, and a model with the field status
    Right:  payload: {outcome: {status: data.status}}
    """,
)
BUSINESS_KEY_DIFFERS = _rule(
    "VF821",
    "business-key-differs",
    """The workflowIdTemplate of a model is the business key of its contract.

    Both identify an instance. An argument counts as the field of the data that it is stored in.

    Wrong:  workflowIdTemplate="kyc/${state.entity}", and business_key: "${state.case_id}"
    Right:  the same template in both
    """,
)
CORRELATION_DIFFERS = _rule(
    "VF822",
    "correlation-differs",
    """The correlationKeyTemplate of a message is the one of its key in the contract.

    Wrong:  correlationKeyTemplate="${state.entity}", and corr_documents: "${state.case_id}"
    Right:  the same template in both
    """,
)
GATE_NAME_DIFFERS = _rule(
    "VF823",
    "gate-name-differs",
    """The name of an updateDefinition is that of the gate in the contract.

    Decisions are given by the gate's name in the contract. The name Update_ with the id of the user task counts as
    none.

    Wrong:  <ameide:updateDefinition name="approve" />, and gates: {review: {task: Review}}
    Right:  <ameide:updateDefinition name="review" />, or no name
    """,
)
RETRIES_DIFFER = _rule(
    "VF824",
    "retries-differ",
    """The retries of a task are those of the policy that its policyRef names.

    Where the contract names a policy, the linter compares them; this is for tasks that name their own.

    Wrong:  retries="3" beside policyRef="patient", which has maximum_attempts: 5
    Right:  retries="5", or no retries
    """,
)

RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
"""All rules, by code."""
