"""Models that bring a Zeebe engine into the states its commands are about."""

from itertools import pairwise

_SHELL = """<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="urn:verbworker:tests">
{parts}
</definitions>
"""


def sequence(process: str, *job_types: str, header: str = "v") -> bytes:
    """Start, one service task per job type, end; the header makes one version differ from another."""
    steps = [_task(f"step{number}", job_type, header) for number, job_type in enumerate(job_types)]
    names = ["begin", *(f"step{number}" for number in range(len(job_types))), "end"]
    flows = [_flow(source, target) for source, target in pairwise(names)]
    return _file(_process(process, '<startEvent id="begin"/>', *steps, '<endEvent id="end"/>', *flows))


def caught_error(process: str, job_type: str, *, code: str, rescue: str) -> bytes:
    """A task whose BPMN error of one code leads to a task of the type `rescue`."""
    return _file(
        f'<error id="refused" errorCode="{code}"/>',
        _process(
            process,
            '<startEvent id="begin"/>',
            _task("work", job_type),
            '<boundaryEvent id="caught" attachedToRef="work"><outgoing>caught-rescue</outgoing>'
            '<errorEventDefinition errorRef="refused"/></boundaryEvent>',
            _task("rescue", rescue),
            '<endEvent id="end"/><endEvent id="rescued"/>',
            _flow("begin", "work"),
            _flow("work", "end"),
            _flow("caught", "rescue"),
            _flow("rescue", "rescued"),
        ),
    )


def message_wait(process: str, message: str, job_type: str) -> bytes:
    """Wait for a message by `corr_key`, then one task."""
    return _file(
        f'<message id="letter" name="{message}"><extensionElements>'
        '<zeebe:subscription correlationKey="=corr_key"/></extensionElements></message>',
        _process(
            process,
            '<startEvent id="begin"/>',
            '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="letter"/></intermediateCatchEvent>',
            _task("work", job_type),
            '<endEvent id="end"/>',
            _flow("begin", "wait"),
            _flow("wait", "work"),
            _flow("work", "end"),
        ),
    )


def message_start(process: str, message: str) -> bytes:
    """A process that only a message can start."""
    return _file(
        f'<message id="letter" name="{message}"/>',
        _process(
            process,
            '<startEvent id="begin"><messageEventDefinition messageRef="letter"/></startEvent>',
            '<endEvent id="end"/>',
            _flow("begin", "end"),
        ),
    )


def calls(process: str, child: str) -> bytes:
    """A process that calls another and waits for it."""
    return _file(
        _process(
            process,
            '<startEvent id="begin"/>',
            '<callActivity id="call"><extensionElements>'
            f'<zeebe:calledElement processId="{child}"/></extensionElements></callActivity>',
            '<endEvent id="end"/>',
            _flow("begin", "call"),
            _flow("call", "end"),
        )
    )


def _file(*parts: str) -> bytes:
    return _SHELL.format(parts="\n".join(parts)).encode()


def _process(key: str, *parts: str) -> str:
    return f'<process id="{key}" isExecutable="true">' + "".join(parts) + "</process>"


def _task(key: str, job_type: str, header: str = "v") -> str:
    return (
        f'<serviceTask id="{key}"><extensionElements><zeebe:taskDefinition type="{job_type}" retries="3"/>'
        f'<zeebe:taskHeaders><zeebe:header key="team" value="{header}"/></zeebe:taskHeaders>'
        "</extensionElements></serviceTask>"
    )


def _flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}"/>'
