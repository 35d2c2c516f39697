"""Seed 001, sections 6 to 10 and 12, under the profile strict-v1: templates, paths, parts of the extension, waits."""

import pytest

from tests.support.strict_model import MODEL, Edit, contracts, found, meets
from verblint.contracts.contract import Contracts
from verblint.startup.value import replace

_WORKFLOW = '      <ameide:workflowDefinition definitionId="claim/1" workflowIdTemplate="claim/${state.claim_id}" />\n'
_KEY = 'idempotencyKeyTemplate="ask/${state.claim_id}"'
_INPUT = '<ameide:input source="state.claim_id" target="request.claim" />'
_OUTPUT = '<ameide:output source="result.sent.at" target="state.asked_at" />'
_DOCS = '      <ameide:subscription correlationKeyTemplate="${state.claim_id}" messageIdPath="message_id" />\n'
_PAID = '      <ameide:subscription correlationKeyTemplate="pay/${state.payment.id}" messageIdPath="message_id" />\n'
_UPDATE = '        <ameide:updateDefinition name="Update_Review" />\n'
_CATCH = '<bpmn:messageEventDefinition messageRef="paid" />'
_HEADER = '<ameide:header key="letter.kind-1" value="first" />'


def _definition(name: str) -> str:
    """The task definition of a step as it is written."""
    return next(line + "\n" for line in MODEL.splitlines() if f'taskDefinition type="claim.{name}" policyRef' in line)


def _key(template: str) -> str:
    return f'idempotencyKeyTemplate="{template}"'


# 6 The envelope, as far as a model can speak of it

ENVELOPE = [
    Edit(
        "a subscription says where the key is to be read",
        _DOCS,
        _DOCS.replace(" />", ' correlationKeyPath="correlation_key" />'),
        "AM703",
    ),
    Edit("a subscription reads the id of a delivery elsewhere", _DOCS, _DOCS.replace('"message_id"', '"id"'), "AM708"),
    Edit(
        "ingress would start another workflow than the process",
        _WORKFLOW,
        _WORKFLOW.replace(" workflowId", ' workflowType="other" workflowId'),
        "AM717",
    ),
]


@pytest.mark.req("ING-01", "PRX-28", "X-26")
@pytest.mark.parametrize("edit", ENVELOPE, ids=lambda edit: edit.name)
def test_what_a_message_carries_is_not_for_a_model_to_choose(edit: Edit) -> None:
    assert meets(edit)


# 7 Templates


@pytest.mark.req("TPL-01", "TPL-02", "TPL-07")
@pytest.mark.parametrize(
    "template",
    [
        "${process_instance_id}",
        "a/${process_run_id}",
        "${state.a}${step_id}",
        "${step_instance_id}",
        "${state.a.b_2._c}",
        r"\${not} ${state.a}",
        r"\n ${state.a} \ ",
        "$ {} ${state.a}",
    ],
)
def test_a_key_may_use_every_variable_and_any_state(template: str) -> None:
    assert found(MODEL.replace(_KEY, _key(template))) == []


TEMPLATES = [
    *(
        Edit(f"the placeholder is {name or 'empty'}", _KEY, _key(f"${{state.a}}${{{name}}}"), "AM709")
        for name in (
            *(
                "",
                "now()",
                "state",
                "state.",
                "state.1a",
                "state.a[0]",
                "state.a..b",
                "state.a-b",
                "state.a.",
                "request.a",
            ),
            *("result.a", "tenant_id", " step_id", "STEP_ID", "state.a ", "process_instance_id.x", "args.a"),
        )
    ),
    Edit("the placeholder is not closed", _KEY, _key("${state.a}${step_id"), "AM709"),
    Edit("the template is empty", _KEY, _key(""), "AM709"),
    Edit("a key of a wait has an unknown placeholder", "pay/${state.payment.id}", "${payment.id}", "AM709"),
    Edit("the id of the workflow has an unknown placeholder", "claim/${state.claim_id}", "${uuid()}", "AM709"),
]


@pytest.mark.req("TPL-01", "TPL-03", "TPL-06")
@pytest.mark.parametrize("edit", TEMPLATES, ids=lambda edit: edit.name)
def test_a_template_has_known_placeholders(edit: Edit) -> None:
    assert meets(edit)


# 8 Paths and their roots


def _mapped(source: str, target: str) -> str:
    return f'<ameide:input source="{source}" target="{target}" />'


PATHS = [
    *(
        Edit(f"the source is {path}", _INPUT, _mapped(path, "request.claim"), "AM712")
        for path in (
            *(
                "state.items[0]",
                "state..a",
                "state.",
                ".state.a",
                "state.1a",
                "state.a-b",
                "state.a b",
                "state",
                "claim",
            ),
            *("request.a", "result.a", "State.a", "state.a/b", "${state.a}"),
        )
    ),
    *(
        Edit(f"the target of an input is {path}", _INPUT, _mapped("state.claim_id", path), "AM712")
        for path in ("state.a", "result.a", "request", "claim", "request.a[1]")
    ),
    *(
        Edit(f"the source of an output is {path}", _OUTPUT, _OUTPUT.replace("result.sent.at", path), "AM712")
        for path in ("state.a", "request.a", "result", "result.a[1]")
    ),
    *(
        Edit(f"the target of an output is {path}", _OUTPUT, _OUTPUT.replace("state.asked_at", path), "AM712")
        for path in ("request.a", "result.a", "state", "asked_at")
    ),
    *(
        Edit(f"a key of a wait uses {name}", "pay/${state.payment.id}", f"${{{name}}}", "AM710")
        for name in ("process_instance_id", "process_run_id", "step_id", "step_instance_id")
    ),
    *(
        Edit(f"messageIdPath is {path!r}", _PAID, _PAID.replace('"message_id"', f'"{path}"'), code)
        for path, code in (
            ("messageId", "AM708"),
            ("state.message_id", "AM708"),
            (" message_id", "AM708"),
            ("", "AM703"),
        )
    ),
]


@pytest.mark.req("PRX-27", "TPL-06", "TPL-07")
@pytest.mark.parametrize("edit", PATHS, ids=lambda edit: edit.name)
def test_a_path_has_the_root_of_its_attribute(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-27", "TPL-06")
@pytest.mark.parametrize("path", ["state._", "state.A1.b_c.D", "state.claim.holder.name"])
def test_a_path_is_names_joined_by_dots(path: str) -> None:
    assert found(MODEL.replace(_INPUT, _mapped(path, "request.x.y"))) == []


# 9.1 and 12 The workflow definition

WORKFLOW = [
    Edit("the process has none", _WORKFLOW, "", "AM705", "<bpmn:process"),
    Edit("the process has two", _WORKFLOW, _WORKFLOW + _WORKFLOW.replace("claim/1", "x"), "AM704", 'definitionId="x"'),
    Edit("it has no definitionId", ' definitionId="claim/1"', "", "AM703"),
    Edit("its definitionId is empty", 'definitionId="claim/1"', 'definitionId=""', "AM703"),
    Edit("it has no workflowIdTemplate", ' workflowIdTemplate="claim/${state.claim_id}"', "", "AM703"),
    Edit("its workflowIdTemplate is empty", 'Template="claim/${state.claim_id}"', 'Template=""', "AM703"),
    *(
        Edit(f"its workflowIdTemplate uses {name}", "claim/${state.claim_id}", f"claim/${{{name}}}", "AM710")
        for name in ("process_instance_id", "process_run_id", "step_id", "step_instance_id")
    ),
]


@pytest.mark.req("PRX-21", "PRX-22", "PRX-36")
@pytest.mark.parametrize("edit", WORKFLOW, ids=lambda edit: edit.name)
def test_a_process_has_one_workflow_definition(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-21", "X-26")
def test_the_type_of_the_workflow_may_be_written() -> None:
    assert found(MODEL.replace('definitionId="claim/1"', 'definitionId="claim/1" workflowType="claim"')) == []


# 9.2 Task definitions

_STEPS = {"ask": "serviceTask", "tell": "sendTask", "notify": "intermediateThrowEvent"}
TASKS = [
    *(
        Edit(f"a {kind} has none", _definition(name), "", "AM706", f'<bpmn:{kind} id="{name}"')
        for name, kind in _STEPS.items()
    ),
    *(
        Edit(
            f"a {kind} has two",
            _definition(name),
            _definition(name) + _definition(name).replace(name + "/", "other/"),
            "AM704",
            "other/",
        )
        for name, kind in _STEPS.items()
    ),
    Edit("it has no type", _definition("ask"), _definition("ask").replace('type="claim.ask" ', ""), "AM703"),
    Edit("its type is empty", _definition("ask"), _definition("ask").replace('"claim.ask"', '""'), "AM703"),
    Edit("it has no policyRef", _definition("ask"), _definition("ask").replace('policyRef="standard" ', ""), "AM703"),
    Edit("its policyRef is empty", _definition("ask"), _definition("ask").replace('"standard"', '""'), "AM703"),
    Edit("it says how", _definition("ask"), _definition("ask").replace(" />", ' implementation="go" />'), "AM703"),
    Edit("its policy is unknown", _definition("ask"), _definition("ask").replace('"standard"', '"Standard"'), "AM715"),
]


@pytest.mark.req("PRX-05", "PRX-20", "PRX-23", "PRX-24", "PRX-36", "POL-04")
@pytest.mark.parametrize("edit", TASKS, ids=lambda edit: edit.name)
def test_every_automated_step_has_one_task_definition(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-23", "TPL-11")
def test_the_key_of_a_step_may_be_left_out() -> None:
    assert found(MODEL.replace(f" {_KEY}", "")) == []


@pytest.mark.req("POL-04")
@pytest.mark.parametrize("known", [Contracts(), replace(contracts(), policies={})], ids=["none", "no policies"])
def test_a_policy_is_unknown_where_there_is_no_catalogue(known: Contracts) -> None:
    codes = [finding.code for finding in found(MODEL, known=known)]

    assert codes == ["AM715"] * 4


# 9.3 Headers

_ASK_HEADERS = f"""\
        <ameide:taskHeaders>
          {_HEADER}
        </ameide:taskHeaders>
"""
_TELL_PARTS = "        <ameide:taskHeaders />\n        <ameide:ioMapping />\n"
HEADERS = [
    Edit("a service task has none", _ASK_HEADERS, "", "AM752", '<bpmn:serviceTask id="ask"'),
    Edit("a send task has none", "        <ameide:taskHeaders />\n", "", "AM752", '<bpmn:sendTask id="tell"'),
    Edit(
        "a task has them twice",
        _ASK_HEADERS,
        _ASK_HEADERS + "<ameide:taskHeaders\n/>",
        "AM704",
        "<ameide:taskHeaders\n",
    ),
    Edit("a header has no key", _HEADER, '<ameide:header value="first" />', "AM703"),
    Edit("a header has no value", _HEADER, '<ameide:header key="letter.kind-1" />', "AM703"),
    Edit("the value of a header is empty", _HEADER, '<ameide:header key="letter.kind-1" value="" />', "AM703"),
    *(
        Edit(f"the key is {key!r}", _HEADER, f'<ameide:header key="{key}" value="first" />', "AM716")
        for key in ("Letter", "_letter", ".a", "-a", "a b", "a/b", "é", "a" * 65)
    ),
]


@pytest.mark.req("PRX-26")
@pytest.mark.parametrize(
    "host",
    [
        *("https://api.example.com", "amqp://queue", "localhost", "localhost:8080", "10.0.0.7", "10.0.0.7:5432/db"),
        *("api.example.com", "api.example.com/v1", "db.internal", "kafka:9092", "letters.claims.svc"),
    ],
)
def test_a_header_names_no_place_of_an_environment(host: str) -> None:
    model = MODEL.replace('header key="letter.kind-1" value="first"', f'header key="letter.kind-1" value="{host}"')

    errors = {finding.code for finding in found(model)}

    # One at the header of each extension.
    assert errors == {"AM716", "HB311"}


@pytest.mark.req("PRX-26")
@pytest.mark.parametrize(
    "value", ["first", "letter.kind-1", "a/b", "2024-05", "v1.2", "one: two", "12:30", "Ada Com", "$"]
)
def test_a_header_has_any_other_word(value: str) -> None:
    assert found(MODEL.replace('letter.kind-1" value="first"', f'letter.kind-1" value="{value}"')) == []


MIRROR = [
    Edit("the engine has no such header", '<zeebe:header key="letter.kind-1" value="first" />', "", "AM717", _HEADER),
    Edit(
        "the engine has another value",
        '<zeebe:header key="letter.kind-1" value="first" />',
        '<zeebe:header key="letter.kind-1" value="last" />',
        "AM717",
        _HEADER,
    ),
]


@pytest.mark.req("PRX-26", "PRX-09")
@pytest.mark.parametrize("edit", MIRROR, ids=lambda edit: edit.name)
def test_a_header_is_also_the_engines(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-26", "X-26")
@pytest.mark.parametrize("edit", HEADERS, ids=lambda edit: edit.name)
def test_every_task_has_its_headers(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-26")
@pytest.mark.parametrize("key", ["0", "a", "a_.-9", "a" * 64])
def test_the_key_of_a_header_is_plain(key: str) -> None:
    assert found(MODEL.replace('header key="letter.kind-1"', f'header key="{key}"')) == []


# 9.4 Mappings

_MAPPING = f"""\
        <ameide:ioMapping>
          {_INPUT}
          {_OUTPUT}
        </ameide:ioMapping>
"""
MAPPINGS = [
    Edit("a service task has none", _MAPPING, "", "AM752", '<bpmn:serviceTask id="ask"'),
    Edit("a send task has none", "        <ameide:ioMapping />\n", "", "AM752", '<bpmn:sendTask id="tell"'),
    Edit("a task has two", _MAPPING, _MAPPING + "<ameide:ioMapping\n/>", "AM704", "<ameide:ioMapping\n"),
    Edit("an input has no source", _INPUT, '<ameide:input target="request.claim" />', "AM703"),
    Edit("an input has no target", _INPUT, '<ameide:input source="state.claim_id" />', "AM703"),
    Edit("an output has no source", _OUTPUT, '<ameide:output target="state.asked_at" />', "AM703"),
    Edit("an output has no target", _OUTPUT, '<ameide:output source="result.sent.at" />', "AM703"),
]


@pytest.mark.req("PRX-27", "X-26")
@pytest.mark.parametrize("edit", MAPPINGS, ids=lambda edit: edit.name)
def test_every_task_has_its_mapping(edit: Edit) -> None:
    assert meets(edit)


# 9.5 Subscriptions

SUBSCRIPTIONS = [
    Edit("a message that is waited for has none", _DOCS, "", "AM707", '<bpmn:message id="docs"'),
    Edit(
        "a message that nobody waits for has none",
        '  <bpmn:message id="docs"',
        '  <bpmn:message id="more" name="more" />\n  <bpmn:message id="docs"',
        "AM752",
    ),
    Edit("a message has two", _DOCS, _DOCS + _DOCS.replace(".claim_id", ".other"), "AM704", "${state.other}"),
    Edit("it has no template", _DOCS, _DOCS.replace('correlationKeyTemplate="${state.claim_id}" ', ""), "AM703"),
    Edit("its template is empty", _DOCS, _DOCS.replace("${state.claim_id}", ""), "AM703"),
    Edit("it has no messageIdPath", _DOCS, _DOCS.replace(' messageIdPath="message_id"', ""), "AM703"),
    Edit("the message has no name", ' name="documents-received"', "", "HB505"),
    Edit("the name of the message is empty", ' name="documents-received"', ' name=""', "HB505"),
    Edit("two messages have one name", 'name="payment-confirmed"', 'name="documents-received"', "AM718"),
]


@pytest.mark.req("PRX-28", "PRX-29", "PRX-36")
@pytest.mark.parametrize("edit", SUBSCRIPTIONS, ids=lambda edit: edit.name)
def test_every_message_has_one_subscription_and_a_name(edit: Edit) -> None:
    assert meets(edit)


# 9.6 Updates

UPDATES = [
    Edit("a user task has none", _UPDATE, "", "AM752", '<bpmn:userTask id="Review"'),
    Edit("a user task has two", _UPDATE, _UPDATE + _UPDATE.replace(" />", "\n/>"), "AM704", "\n/>"),
    Edit("it has no name", _UPDATE, _UPDATE.replace(' name="Update_Review"', ""), "AM752"),
    Edit("it has a name of its own", _UPDATE, _UPDATE.replace("Update_Review", "Decide"), "AM752"),
    Edit("its name has another case", _UPDATE, _UPDATE.replace("Update_Review", "Update_review"), "AM752"),
    Edit("it has another attribute", _UPDATE, _UPDATE.replace(" />", ' audience="all" />'), "AM703"),
]


@pytest.mark.req("PRX-33", "X-26")
@pytest.mark.parametrize("edit", UPDATES, ids=lambda edit: edit.name)
def test_every_user_task_has_one_update_named_after_it(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-33", "X-26")
def test_a_gate_may_have_a_name_of_its_own_under_hollow() -> None:
    text = MODEL.replace("Update_Review", "Decide")

    assert {finding.code for finding in found(text, profile="hollow")} == {"AM722", "HB513"}


# 10.1 Waits and their messages

WAITS = [
    Edit("an event has no definition", f"      {_CATCH}\n", "", "HB021", 'id="catch"'),
    Edit("an event has two definitions", f"      {_CATCH}\n", f"      {_CATCH}\n" * 2, "HB021", 'id="catch"'),
    Edit(
        "a definition names no message",
        _CATCH,
        "<bpmn:messageEventDefinition />",
        "HB029",
        "<bpmn:messageEventDefinition />\n    </bpmn:intermediateCatchEvent>",
    ),
    Edit("a definition names a message that is not there", 'messageRef="paid"', 'messageRef="gone"', "HB010"),
    Edit("a definition names something else", 'messageRef="paid"', 'messageRef="ask"', "HB010"),
    Edit("the message of an event has no subscription", _PAID, "", "AM707", '<bpmn:message id="paid"'),
    Edit("a task names no message", ' messageRef="docs"', "", "HB029"),
    Edit("a task names a message that is not there", 'messageRef="docs"', 'messageRef="gone"', "HB010"),
    Edit("a task names something else", 'messageRef="docs"', 'messageRef="ask"', "HB010"),
    Edit("the message of a task has no subscription", _DOCS, "", "AM707", '<bpmn:message id="docs"'),
]


@pytest.mark.req("PRX-18", "PRX-30")
@pytest.mark.parametrize("edit", WAITS, ids=lambda edit: edit.name)
def test_every_wait_has_a_message_with_a_subscription(edit: Edit) -> None:
    assert meets(edit)
