"""Gateways, the conditions of their flows, and the flags that they and other places read."""

from collections.abc import Iterator, Mapping

from verblint.bpmn.expression import Expression
from verblint.bpmn.places import flag_places
from verblint.contracts.contract import FlagType
from verblint.feel.branch import Branch
from verblint.feel.condition import (
    And,
    BareFlag,
    Comparison,
    FlagRead,
    Literal,
    Membership,
    Not,
    Or,
    Test,
    Value,
    evaluate,
    flags,
    walk,
)
from verblint.flow.branching import BRANCHING, decisions_without_default
from verblint.names import nearest
from verblint.report import Edit, Finding, Fix
from verblint.rule import CONTRACTS, Context, process_id, rule


@rule("HB215", on=("conditionExpression",))
def bare_flag(context: Context) -> Iterator[Finding]:
    """A flag is compared, even when it is true or false.

    A bare flag that is null or not a boolean raises an incident, although the gateway has a default flow. Compared
    with true it is simply false, and the default flow is taken. The fix appends `= true`.

    Wrong:  =orch_docs_received
    Right:  =orch_docs_received = true
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        for test in walk(branch.test) if branch.test is not None else ():
            if not isinstance(test, BareFlag):
                continue
            flag = test.flag
            place = branch.condition.part(flag.start, flag.end)
            declared = verb.flags.get(flag.name) if verb is not None else None
            message = f"the flag {flag.name} is used alone, which is an incident when it is not a boolean"
            hint, fix = f"Compare {flag.name} with one of its values", None
            if declared is None or declared.type is FlagType.BOOLEAN:
                hint = f"Write: {flag.name} = true"
                fix = Fix("compare the flag with true", (Edit(place.end, place.end, b" = true"),))
            yield context.at(place, message, hint=hint, detail=flag.name, fix=fix)


@rule("HB216", on=("exclusiveGateway", "inclusiveGateway"))
def gateway_without_default(context: Context) -> Iterator[Finding]:
    """A gateway that branches has a default flow.

    When no condition holds and there is no default flow, the instance stops with an incident. A gateway needs none only
    where the contract shows that its conditions cover every value of the flags they read.

    Wrong:  <exclusiveGateway id="decide">, and the one flow that leaves it: =orch_outcome = "approved"
    Right:  <exclusiveGateway id="decide" default="flow_rejected">
    """
    for decision in decisions_without_default(context):
        verb = context.contracts.of_process(decision.process.id)
        if decision.find_gaps(verb) is None:
            hint = "Draw one more flow, or take a flow's condition away, and name it in the gateway's default attribute"
            yield context.at(decision.gateway.element, "the gateway has no default flow", hint=hint)


@rule("HB217", on=("conditionExpression",))
def constant_condition(context: Context) -> Iterator[Finding]:
    """A condition can be true and it can be false.

    A flow that is always taken makes its neighbours unreachable; one that is never taken is dead. Either the condition
    has a mistake, or the diagram shows a choice that does not exist.

    Wrong:  =true
    Wrong:  =orch_outcome = "approved" and orch_outcome = "rejected"
    Right:  =orch_outcome = "approved"
    """
    yield from context.refused_conditions()
    for branch in context.branches:
        always = _constant(branch, context)
        if always:
            hint = "Make it the default flow, or test a flag"
            yield context.at(branch.condition, "the condition is always true", hint=hint)
        elif always is not None:
            hint = "Test values that can occur, or drop the flow"
            yield context.at(branch.condition, "the condition is never true", hint=hint)


def _constant(branch: Branch, context: Context) -> bool | None:
    if branch.test is None:
        return None
    verb = context.contracts.of_process(branch.process.id)
    if verb is None and not isinstance(branch.test, Not | And | Or):
        # A comparison with a flag that may have any value can be true or false.
        return None
    from verblint.feel.assignments import assignments

    cases = assignments([branch.test], verb.flags if verb is not None else {})
    truths = {bool(evaluate(branch.test, case)) for case in cases or ()}
    return truths.pop() if len(truths) == 1 else None


@rule("HB221", on=("conditionExpression",))
def condition_outside_gateway(context: Context) -> Iterator[Finding]:
    """A condition is on a flow that leaves an exclusive or inclusive gateway.

    The engine refuses it on any other flow. A choice that is drawn without a gateway is easily overlooked.

    Wrong:  a serviceTask whose outgoing flow has a condition
    Right:  the task, then an exclusiveGateway, then the flow with the condition
    """
    for branch in context.branches:
        node = branch.gateway
        if node is None or node.kind in BRANCHING:
            continue
        message = f"the flow leaves the {node.element.local} {node.id}, where conditions are not allowed"
        yield context.at(branch.condition, message, hint=f"Draw an exclusiveGateway behind {node.id}")


@rule("HB222", on=("exclusiveGateway", "inclusiveGateway"))
def flow_without_condition(context: Context) -> Iterator[Finding]:
    """A flow that leaves a branching gateway has a condition or is the default.

    With two or more flows the engine must know when to take each, and refuses the model when it does not.

    Wrong:  an exclusiveGateway with two flows, one of them without a condition and no default
    Right:  <exclusiveGateway id="decide" default="flow_without_condition">
    """
    for scope, node in context.nodes(*BRANCHING):
        flows = scope.outgoing(node)
        for flow in flows if len(flows) > 1 else ():
            if flow.condition is None and flow.id != node.default:
                message = f"the flow leaves {node.id} without a condition and is not its default"
                hint = f'Write a condition, or default="{flow.id}" on the gateway'
                yield context.at(flow.element, message, hint=hint)


@rule("HB223", on=("conditionExpression",))
def default_flow_with_condition(context: Context) -> Iterator[Finding]:
    """The default flow of a gateway has no condition.

    The default flow is taken when no other condition holds, so its own condition never decides. It misleads a reader.

    Wrong:  <exclusiveGateway default="f1">, and f1 has the condition =orch_x = "a"
    Right:  f1 without a condition, or another flow as the default
    """
    for branch in context.branches:
        if branch.gateway is not None and branch.flow.id and branch.gateway.default == branch.flow.id:
            message = f"this is the default flow of {branch.gateway.id}, so its condition decides nothing"
            hint = "Remove the condition, or name another flow as the default"
            yield context.at(branch.condition, message, hint=hint)


@rule("HB224", on=("conditionExpression",))
def condition_markup(context: Context) -> Iterator[Finding]:
    """A condition is text and nothing else.

    The engine joins the text of elements inside a condition to the condition itself, and ignores the `language`
    attribute. Both mislead a reader about what is evaluated.

    Wrong:  <conditionExpression language="javascript">=orch_x = "a"</conditionExpression>
    Right:  <conditionExpression>=orch_x = "a"</conditionExpression>
    """
    for element in context.every("conditionExpression"):
        for child in element.children:
            message = f"the element {child.local} is inside a condition, and its text would be evaluated"
            hint = "Remove it; the flow itself may have documentation"
            yield context.at(child, message, hint=hint, detail=child.local)
        language = element.attribute("language")
        if language is not None:
            message = "the engine ignores the language of a condition and always evaluates FEEL"
            yield context.at(language.whole, message, hint="Remove the attribute", detail="language")


_DECLARE = "Declare it under flags in the verb's contract, with an initial value"
# Each type of a flag: its type in Python, and a comparison with it.
_TYPES = {
    FlagType.BOOLEAN: (bool, "= true"),
    FlagType.INTEGER: (int, ">= 3"),
    FlagType.STRING: (str, '= "text"'),
    FlagType.ENUM: (str, '= "value"'),
}
_SHOWN = 3  # examples suffice; there may be thousands


@rule("HB204", on=(CONTRACTS,))
def flag_undeclared(context: Context) -> Iterator[Finding]:
    """A flag that a model reads is declared by its verb.

    The runtime sets every declared flag when the process starts, and lets no other flag through. A flag that is not
    declared is always null, and a null flag is an incident or the wrong branch.

    Wrong:  =orch_aproved = true, and the verb declares orch_approved
    Right:  flags: {orch_approved: {type: boolean, initial: false}}, and =orch_approved = true
    """
    for process, name, written, start in _read(context) if context.contracts.workflows else ():
        verb = context.contracts.of_process(process)
        if verb is not None and name not in verb.flags:
            message = f"the verb {verb.name} declares no flag {name}"
            place = written.part(start, start + len(name))
            near = nearest(name, verb.flags)
            hint = f"Write {near}" if near else f"{_DECLARE}: {name}"
            yield context.at(place, message, hint=hint, detail=name)


def _read(context: Context) -> Iterator[tuple[str, str, Expression, int]]:
    """Yield every use of a flag: the process, the name, and its place in an expression."""
    for branch in context.branches:
        for flag in flags(branch.test) if branch.test is not None else ():
            yield branch.process.id, flag.name, branch.condition, flag.start
    for written in flag_places(context):
        if written.flag:
            yield process_id(written.element), written.flag, written.value, written.value.text.index(written.flag)


@rule("HB218", on=(CONTRACTS,))
def unknown_flag_value(context: Context) -> Iterator[Finding]:
    """A value that a condition compares an enum flag with is one of the flag's values.

    The verb declares the values of the flag, and the runtime lets no other through. A misspelt value never matches: the
    flow is dead, and no error reports it.

    Wrong:  =orch_review_outcome = "aproved"
    Right:  =orch_review_outcome = "approved"
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        if verb is None or branch.test is None:
            continue
        for flag, literal in ((flag, one) for flag, literals in _comparisons(branch.test) for one in literals):
            declared = verb.flags.get(flag.name)
            if declared is None or declared.type is not FlagType.ENUM or not isinstance(literal.value, str):
                continue
            if literal.value not in declared.values:
                place = branch.condition.part(literal.start, literal.end)
                message = f'"{literal.value}" is not a value of {flag.name}'
                near = nearest(literal.value, declared.values)
                values = ", ".join(f'"{known}"' for known in declared.values)
                hint = f'Write "{near}"' if near else f"Write one of: {values}"
                yield context.at(place, message, hint=hint, detail=f"{flag.name}={literal.value}")


def _comparisons(test: Test) -> Iterator[tuple[FlagRead, tuple[Literal, ...]]]:
    """Yield every flag that a condition compares, with the literals it is compared with."""
    for part in walk(test):
        if isinstance(part, Comparison):
            yield part.flag, (part.literal,)
        elif isinstance(part, Membership):
            yield part.flag, part.literals


@rule("HB219", on=(CONTRACTS,))
def unhandled_flag_values(context: Context) -> Iterator[Finding]:
    """The conditions of a gateway without a default flow cover every value of their flags.

    The contract defines which values a flag can have, so the linter tries them all. A value for which no condition
    holds stops the instance with an incident on the day it first occurs.

    Wrong:  flows for "approved" and "rejected", and the flag may also be "more-info"
    Right:  a third flow for "more-info", or a default flow
    """
    for decision in decisions_without_default(context):
        unhandled = decision.find_gaps(context.contracts.of_process(decision.process.id))
        if not unhandled:
            continue
        shown = "; ".join(_describe_case(case) for case in unhandled[:_SHOWN])
        more = f"; and {len(unhandled) - _SHOWN} more" if len(unhandled) > _SHOWN else ""
        message = f"no flow can be taken when {shown}{more}"
        yield context.at(decision.gateway.element, message, hint="Draw a flow for it, or name a default flow")


def _describe_case(case: Mapping[str, Value]) -> str:
    return " and ".join(f"{name} is {_format_value(value)}" for name, value in case.items())


def _format_value(value: Value) -> str:
    if value == "\0":
        return "any other text"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


@rule("HB220", on=(CONTRACTS,))
def flag_type_mismatch(context: Context) -> Iterator[Finding]:
    """A condition compares a flag with a value of the flag's type.

    The comparison is null when the types differ, and a condition that is null raises an incident. Greater and less are
    only for flags declared as integer. A declared flag is never null, so a comparison with null is pointless.

    Wrong:  =orch_attempts = "3", and the flag is an integer
    Right:  =orch_attempts = 3
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        if verb is None or branch.test is None:
            continue
        for read, literals in _comparisons(branch.test):
            flag = verb.flags.get(read.name)
            if flag is None:
                continue
            wanted, example = _TYPES[flag.type]
            for wrong in [literal for literal in literals if type(literal.value) is not wanted][:1]:
                place = branch.condition.part(wrong.start, wrong.end)
                message = f"{flag.name} is of type {flag.type} and is compared with {_name_type(wrong.value)}"
                yield context.at(place, message, hint=f"Write: {flag.name} {example}", detail=flag.name)


def _name_type(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case _:
            return "a string"


@rule("HB312", on=(CONTRACTS,))
def flag_type_of_place(context: Context) -> Iterator[Finding]:
    """A flag that replaces a literal has the type of that literal.

    A timer, a date and an assignee are strings, a priority is an integer. A flag of another type raises an incident
    when the token arrives.

    Wrong:  <timeDuration>=orch_docs_received</timeDuration>, and the flag is a boolean
    Right:  <timeDuration>=orch_document_deadline</timeDuration>, and the flag is a string such as P5D
    """
    for written in flag_places(context):
        verb = context.contracts.of_process(process_id(written.element))
        flag = verb.flags.get(written.flag) if verb is not None else None
        if flag is None:
            continue
        wanted = FlagType.INTEGER if written.attribute == "priority" else FlagType.STRING
        if flag.type is not wanted and (flag.type is not FlagType.ENUM or wanted is not FlagType.STRING):
            message = f"{flag.name} is of type {flag.type} where the engine needs a flag of type {wanted}"
            hint = f"Name a flag of type {wanted}"
            yield context.at(written.value, message, hint=hint, detail=written.element.local)
