"""Models to weave, and how a test looks at what came of them."""

import re
from collections.abc import Iterable, Mapping

from tests.support.bpmn import document, process
from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import Definitions, Process
from verblint.bpmn.reader import read
from verblint.contracts.contract import Gate
from verbworker.contract.policy import Policy
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model.weave import Woven, weave

MESSAGE = (
    '<message id="letter" name="letter-came"><extensionElements>'
    '<zeebe:subscription correlationKey="=corr_case"/></extensionElements></message>'
)
BY_MESSAGE = '<messageEventDefinition messageRef="letter"/>'
BY_TIMER = "<timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition>"
BY_ERROR = '<errorEventDefinition errorRef="refused"/>'
SHARED = f'{MESSAGE}<error id="refused" errorCode="REFUSED"/><escalation id="up" escalationCode="UP"/>'

_WOVEN = re.compile(
    rb"<zeebe:executionListeners xmlns:zeebe=.*?</zeebe:executionListeners>"
    rb"|<zeebe:executionListener xmlns:zeebe=[^>]*/>"
    rb'|(?<=taskDefinition) retries="\d+"'
)
_HOLDER = re.compile(rb"<([\w.-]+:|)extensionElements></\1extensionElements>")
_EMPTY = re.compile(rb"""<(?P<name>[\w:.-]+)(?P<rest>(?:\s(?:[^"'<>/]|"[^"]*"|'[^']*')*)?)/>""")


def registry_of(
    process_id: str = "case",
    *,
    gates: Mapping[str, str] | None = None,
    policy: str | None = None,
    policies: Iterable[Policy] = (),
) -> Registry:
    """A registry with one workflow verb that owns a process."""
    found = {name: Gate(name, task) for name, task in (gates or {}).items()}
    verb = WorkflowVerb(
        name="kyc.open-case", version=1, process=process_id, schema="kyc/v1", gates=found, policy=policy
    )
    return Registry().declare(verb, policies=policies)


def woven(*parts: str, registry: Registry | None = None) -> Woven:
    """A model with these parts in its process, woven."""
    return weave(document(SHARED, process(*parts)), registry or registry_of())


def the_process(content: bytes) -> Process:
    """The one executable process of a model."""
    (found,) = model_of(content).executable
    return found


def model_of(content: bytes) -> Definitions:
    """A model as the linter reads it."""
    return assemble(read(content))


def listeners(content: bytes) -> dict[str, list[tuple[str, str]]]:
    """The listeners by element, as event and job type; elements without any are left out."""
    found = the_process(content)
    bindings = {found.id: found.binding, **{node.id: node.binding for _, node in found.walk()}}
    heard = {
        key: [(listener.event, listener.type.text) for listener in binding.execution_listeners if listener.type]
        for key, binding in bindings.items()
    }
    return {key: events for key, events in heard.items() if events}


def retries(content: bytes) -> dict[str, str]:
    """The retries of every job by element."""
    nodes = [node for _, node in the_process(content).walk()]
    return {node.id: node.binding.retries.text for node in nodes if node.binding.retries is not None}


def stripped(content: bytes) -> bytes:
    """A woven model without what was woven in, to be compared with `opened`."""
    return opened(_WOVEN.sub(b"", content))


def opened(content: bytes) -> bytes:
    """A model in which no element closes itself and none has an empty extension: there alone weaving changes a tag."""
    return _HOLDER.sub(b"", _EMPTY.sub(rb"<\g<name>\g<rest>></\g<name>>", content))
