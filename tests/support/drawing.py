"""Models drawn in a few words: nodes and arrows in, BPMN out, for every engine that must agree about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring
from xml.sax.saxutils import escape, quoteattr

_SHELL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="http://verbworker/tests">
{declarations}
  <bpmn:process id="{process}" isExecutable="true">
{body}
  </bpmn:process>
</bpmn:definitions>
"""
_NAMESPACES = {
    "bpmn": "http://www.omg.org/spec/BPMN/20100524/MODEL",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "zeebe": "http://camunda.org/schema/zeebe/1.0",
}
_TIMES = {"P": "timeDuration", "R": "timeCycle", "=": "timeDuration", "2": "timeDate"}


@dataclass
class Drawing:
    """A process, or the inside of a subprocess, while it is being drawn. Everything returns the drawing itself."""

    process: str = "p"
    parts: list[str] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    process_listeners: str = ""
    correlation_key: str = "=corr_key"
    lines: list[str] = field(default_factory=list)  # associations stand after everything else

    def start(self, name: str = "begin") -> "Drawing":
        """A none start event."""
        return self._add("startEvent", name)

    def message_start(self, name: str, message: str) -> "Drawing":
        """A start event for a message."""
        return self._add("startEvent", name, self._event("", message))

    def plain(self, name: str) -> "Drawing":
        """A task without work."""
        return self._add("task", name)

    def send(self, name: str, element: str = "sendTask") -> "Drawing":
        """A send task, or a message event of another element: a job, as its name says."""
        inside = _extensions(f'<zeebe:taskDefinition type="{name}" retries="3"/>')
        inside += "" if element == "sendTask" else "<bpmn:messageEventDefinition/>"
        return self._add(element, name, inside)

    def end(self, *names: str) -> "Drawing":
        """None end events."""
        for name in names or ("end",):
            self._add("endEvent", name)
        return self

    def task(
        self, name: str, job_type: str = "", *, retries: int = 3, listeners: str = "", more: str = ""
    ) -> "Drawing":
        """A service task; its job has the name as its type unless another is given."""
        definition = f'<zeebe:taskDefinition type="{job_type or name}" retries="{retries}"/>'
        return self._add("serviceTask", name, f"{_extensions(definition + listeners)}", more)

    def user_task(self, name: str, *, mapping: str = "") -> "Drawing":
        """A job-based user task."""
        return self._add("userTask", name, _extensions(mapping) if mapping else "")

    def gateway(self, kind: str, *names: str, default: str = "", listeners: str = "") -> "Drawing":
        """Gateways of one kind: exclusive, parallel, inclusive, eventBased."""
        inside, more = _extensions(listeners) if listeners else "", f' default="{default}"' if default else ""
        for name in names:
            self._add(f"{kind}Gateway", name, inside, more)
        return self

    def catch(self, name: str, *, timer: str = "", message: str = "", listeners: str = "") -> "Drawing":
        """An intermediate catch event."""
        inside = (_extensions(listeners) if listeners else "") + self._event(timer, message)
        return self._add("intermediateCatchEvent", name, inside)

    def receive(self, name: str, message: str, *, mapping: str = "") -> "Drawing":
        """A receive task."""
        inside = _extensions(mapping) if mapping else ""
        return self._add("receiveTask", name, inside, f' messageRef="{self._message(message)}"')

    def boundary(
        self,
        name: str,
        host: str,
        *,
        timer: str = "",
        message: str = "",
        error: str | None = None,
        interrupting: bool = True,
        listeners: str = "",
    ) -> "Drawing":
        """A boundary event; an empty error catches every code."""
        inside = _extensions(listeners) if listeners else ""
        inside += self._event(timer, message) if error is None else self._error(error)
        more = f' attachedToRef="{host}"' + ("" if interrupting else ' cancelActivity="false"')
        return self._add("boundaryEvent", name, inside, more)

    def error_end(self, name: str, code: str) -> "Drawing":
        """An end event that throws an error."""
        return self._add("endEvent", name, self._error(code))

    def terminate_end(self, name: str) -> "Drawing":
        """An end event that ends its scope at once."""
        return self._add("endEvent", name, "<bpmn:terminateEventDefinition/>")

    def subprocess(self, name: str, inside: "Drawing", *, before: str = "", more: str = "") -> "Drawing":
        """An embedded subprocess; `before` is written before its inside, `more` into its tag."""
        self.messages |= inside.messages
        self.errors |= inside.errors
        return self._add("subProcess", name, before + "\n".join(inside.parts + inside.lines), more)

    def event_subprocess(self, name: str, inside: "Drawing") -> "Drawing":
        """A subprocess that an event of its scope starts."""
        return self.subprocess(name, inside, more=' triggeredByEvent="true"')

    def event_start(
        self, name: str, *, error: str | None = None, message: str = "", interrupting: bool = True
    ) -> "Drawing":
        """The start event of an event subprocess; an empty error catches every code."""
        inside = self._event("", message) if error is None else self._error(error)
        return self._add("startEvent", name, inside, "" if interrupting else ' isInterrupting="false"')

    def compensated(self, host: str, handler: str) -> "Drawing":
        """A service task that undoes another when compensation is thrown."""
        self._add("boundaryEvent", f"undo_{host}", "<bpmn:compensateEventDefinition/>", f' attachedToRef="{host}"')
        self.task(handler, more=' isForCompensation="true"')
        line = f'<bpmn:association id="line_{host}" sourceRef="undo_{host}" targetRef="{handler}"/>'
        self.lines.append(line)
        return self

    def compensate(self, name: str, *, end: bool = False, activity: str = "") -> "Drawing":
        """An event that undoes what was done."""
        ref = f' activityRef="{activity}"' if activity else ""
        inside = f"<bpmn:compensateEventDefinition{ref}/>"
        return self._add("endEvent" if end else "intermediateThrowEvent", name, inside)

    def flow(self, *names: str, when: str = "", id: str = "") -> "Drawing":
        """Arrows from one node to the next; a condition belongs to the only arrow."""
        for source, target in pairwise(names):
            condition = f'<bpmn:conditionExpression xsi:type="bpmn:tFormalExpression">{escape(when)}' if when else ""
            condition += "</bpmn:conditionExpression>" if when else ""
            known = id or f"{source}_{target}"
            ends = f'sourceRef="{source}" targetRef="{target}"'
            self.parts.append(f'<bpmn:sequenceFlow id="{known}" {ends}>{condition}</bpmn:sequenceFlow>')
        return self

    def xml(self) -> bytes:
        """The whole model."""
        declared = [
            f'<bpmn:message id="{ref}" name={quoteattr(name)}>'
            + _extensions(f'<zeebe:subscription correlationKey="{self.correlation_key}"/>')
            + "</bpmn:message>"
            for name, ref in self.messages.items()
        ]
        declared += [f'<bpmn:error id="{ref}" errorCode={quoteattr(code)}/>' for code, ref in self.errors.items()]
        body = "\n".join(
            [_extensions(self.process_listeners) if self.process_listeners else "", *self.parts, *self.lines]
        )
        return _as_modelers_write(_SHELL.format(declarations="\n".join(declared), process=self.process, body=body))

    def _add(self, element: str, name: str, inside: str = "", more: str = "") -> "Drawing":
        self.parts.append(f'<bpmn:{element} id="{name}"{more}>{inside}</bpmn:{element}>')
        return self

    def _event(self, timer: str, message: str) -> str:
        if message:
            return f'<bpmn:messageEventDefinition messageRef="{self._message(message)}"/>'
        kind = _TIMES[timer[0]]
        return f"<bpmn:timerEventDefinition><bpmn:{kind}>{timer}</bpmn:{kind}></bpmn:timerEventDefinition>"

    def _message(self, name: str) -> str:
        return self.messages.setdefault(name, f"message_{abs(hash(name)) % 10**8}")

    def _error(self, code: str) -> str:
        if not code:
            return "<bpmn:errorEventDefinition/>"
        ref = self.errors.setdefault(code, f"error_{code}")
        return f'<bpmn:errorEventDefinition errorRef="{ref}"/>'


def _as_modelers_write(model: str) -> bytes:
    """With what Zeebe reads beside the arrows themselves: each node's own list of them, and ids of definitions."""
    for prefix, uri in _NAMESPACES.items():
        register_namespace(prefix, uri)
    root = fromstring(model)
    flows = root.findall(".//bpmn:sequenceFlow", _NAMESPACES)
    for node in root.iterfind(".//bpmn:process//*[@id]", _NAMESPACES):
        incoming = [_named("incoming", flow) for flow in flows if flow.get("targetRef") == node.get("id")]
        outgoing = [_named("outgoing", flow) for flow in flows if flow.get("sourceRef") == node.get("id")]
        at = 1 if node.find("bpmn:extensionElements", _NAMESPACES) is not None else 0
        node[at:at] = incoming + outgoing
        for child in node:
            if child.tag.endswith("EventDefinition"):
                child.set("id", f"{node.get('id')}_definition")
    return bytes(tostring(root, "utf-8", xml_declaration=True))


def _named(element: str, flow: Element) -> Element:
    made = Element(f"{{{_NAMESPACES['bpmn']}}}{element}")
    made.text = flow.get("id")
    return made


def _extensions(inside: str) -> str:
    return f"<bpmn:extensionElements>{inside}</bpmn:extensionElements>"


def listeners(*pairs: tuple[str, str]) -> str:
    """Execution listeners: each an event and a job type."""
    inside = "".join(f'<zeebe:executionListener eventType="{event}" type="{kind}"/>' for event, kind in pairs)
    return f"<zeebe:executionListeners>{inside}</zeebe:executionListeners>"


def mappings(
    inputs: Mapping[str, str] = MappingProxyType({}), outputs: Mapping[str, str] = MappingProxyType({})
) -> str:
    """An element's mappings, by target: inputs, then outputs."""
    lines = [f'<zeebe:input source={quoteattr(source)} target="{target}"/>' for target, source in inputs.items()]
    lines += [f'<zeebe:output source={quoteattr(source)} target="{target}"/>' for target, source in outputs.items()]
    return f"<zeebe:ioMapping>{''.join(lines)}</zeebe:ioMapping>"
