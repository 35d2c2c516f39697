"""Elements that a hollow model does not have: a table of rules, each with its page and two sentences."""

from collections.abc import Callable, Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report import Finding, Severity
from verblint.rule import Context, Rule, rule

# What an element does, and what to write instead.
Sentences = tuple[str, str]


def forbid(
    code: str, *, bpmn: tuple[str, ...] = (), zeebe: tuple[str, ...] = (), severity: Severity = Severity.ERROR
) -> Callable[[Callable[[], Sentences]], Rule]:
    """Turn a page and its sentences into a rule that finds every element with one of these names."""

    def decorate(row: Callable[[], Sentences]) -> Rule:
        message, hint = row()

        def check(context: Context) -> Iterator[Finding]:
            for element in (*context.every(*bpmn), *context.every(*zeebe, namespace=ZEEBE)):
                yield context.at(element, message.format(describe(element)), hint=hint, detail=element.local)

        check.__name__, check.__doc__ = row.__name__, row.__doc__
        return rule(code, severity=severity, on=(*bpmn, *zeebe))(check)

    return decorate


@forbid("HB101", bpmn=("scriptTask",), zeebe=("script",))
def script_task() -> Sentences:
    """A process has no script task.

    A script is code that no test reaches and no review expects, and it reads every variable. A computation belongs in a
    verb, typed and tested, which a service task calls.

    Wrong:  <scriptTask id="score"> with <zeebe:script expression="=domain_payload.score * 2" ... />
    Right:  <serviceTask id="score"> with <zeebe:taskDefinition type="kyc.score-case" />
    """
    return "the {} computes inside the engine", "Let a serviceTask call a sub-verb that computes it"


@forbid("HB102", bpmn=("businessRuleTask",), zeebe=("calledDecision",))
def business_rule_task() -> Sentences:
    """A process has no business rule task.

    A decision table is domain knowledge inside the engine, and it reads domain data to decide. A sub-verb decides, sets
    a flag, and the gateway branches on the flag.

    Wrong:  <businessRuleTask id="decide"> with <zeebe:calledDecision decisionId="risk" ... />
    Right:  <serviceTask id="decide"> with <zeebe:taskDefinition type="kyc.rate-risk" />, then a gateway on orch_risk
    """
    return (
        "the {} decides over domain data inside the engine",
        "Let a serviceTask call a sub-verb that decides and sets a flag",
    )


@forbid("HB105", bpmn=("callActivity",), zeebe=("calledElement",))
def call_activity() -> Sentences:
    """A process calls no other process.

    A workflow verb consists of direct verbs only. A nested process hides who owns the payload, what is retried and what
    a cancel means. Long work that follows is handed over by a message, and has its own entry.

    Wrong:  <callActivity id="screen"> with <zeebe:calledElement processId="kyc-screening" />
    Right:  <sendTask id="ask-screening">, and a receiveTask for the answer
    """
    return "the {} nests another process", "Call direct verbs, or hand over by a message and wait for the answer"


@forbid("HB106", bpmn=("adHocSubProcess",), zeebe=("adHoc",))
def ad_hoc_sub_process() -> Sentences:
    """A process has no ad-hoc subprocess.

    An expression or an agent's model chooses at run time which of its activities run. The diagram then does not show
    what happens.

    Wrong:  <adHocSubProcess id="choose"> with <zeebe:adHoc activeElementsCollection="=tools" />
    Right:  <subProcess id="choose"> with a gateway on flags
    """
    return "the {} chooses its activities at run time", "Write a subProcess, and let gateways choose by flags"


@forbid(
    "HB107", bpmn=("multiInstanceLoopCharacteristics", "standardLoopCharacteristics"), zeebe=("loopCharacteristics",)
)
def multi_instance() -> Sentences:
    """The engine repeats no activity.

    A collection to iterate over is domain data, and each round would need its own payload. A verb works through the
    items itself; rounds that wait for people or messages are separate entries.

    Wrong:  <multiInstanceLoopCharacteristics> with <zeebe:loopCharacteristics inputCollection="=documents" />
    Right:  one serviceTask whose verb handles all documents
    """
    return (
        "the {} repeats its activity over data",
        "Let one sub-verb handle all items, or loop through a gateway on a flag",
    )


@forbid("HB113", bpmn=("assignment", "transformation"))
def data_assignment() -> Sentences:
    """A model moves no data between data objects and activities.

    The engine ignores data associations. One that assigns or transforms claims that the diagram computes, and another
    tool may act on it.

    Wrong:  <dataInputAssociation> with <assignment><from>order.total</from><to>total</to></assignment>
    Right:  a sub-verb that reads the payload
    """
    return (
        "the {} claims to move data, which no engine does",
        "Remove it: the payload goes to every sub-verb as a whole",
    )


@forbid("HB114", bpmn=("ioSpecification", "property", "dataObject", "dataStoreReference"), severity=Severity.WARNING)
def data_element_ignored() -> Sentences:
    """Data objects, data stores, properties and input specifications have no effect.

    They may explain a diagram to a reader. The engine ignores them, so nothing must depend on them.

    Wrong:  <property id="p" name="limit" /> in the hope of a variable
    Right:  a flag in the verb's contract, or a textAnnotation for the reader
    """
    return "the {} has no effect on any engine", "Use a textAnnotation for readers, a flag for gateways"


@forbid("HB115", bpmn=("conditionalEventDefinition",), zeebe=("conditionalFilter",))
def conditional_event() -> Sentences:
    """No event waits for a condition over variables.

    The engine would evaluate the condition at every change of a variable, in every instance. Variables change only when
    a sub-verb ends, and there a gateway can look.

    Wrong:  <conditionalEventDefinition><condition>=orch_x = "a"</condition></conditionalEventDefinition>
    Right:  an exclusiveGateway behind the task that sets orch_x
    """
    return (
        "the {} waits for a change of variables",
        "Write a gateway behind the task that sets the flag, or wait for a message",
    )


@forbid("HB116", bpmn=("signalEventDefinition", "signal"))
def signal_event() -> Sentences:
    """A process neither sends nor receives signals.

    A signal is a broadcast: every listening instance of every tenant receives it, and the intended receiver is unknown.
    A message has a correlation key and reaches the one instance it is meant for.

    Wrong:  <signalEventDefinition signalRef="documents" />
    Right:  <messageEventDefinition messageRef="documents" />, with a correlation key
    """
    return "the {} reaches every instance of every tenant", "Write a message with a correlation key"


@forbid("HB117", zeebe=("publishMessage",))
def publish_message() -> Sentences:
    """The engine publishes no messages by itself.

    A message that leaves a process is an effect on the world. A sub-verb sends it, with a frame and an idempotency key,
    so that a repeated job does not send it twice.

    Wrong:  <zeebe:publishMessage correlationKey="=corr_case" />
    Right:  <zeebe:taskDefinition type="kyc.notify-reviewer" /> on the sending event or task
    """
    return "the {} sends without a verb", "Write a taskDefinition that names a sub-verb"
