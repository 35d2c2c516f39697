"""Models that wait in every way, as their authors draw them: weaving puts the listeners in."""

from itertools import pairwise

from tests.support.bpmn import document, process

TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
LETTER = '<messageEventDefinition messageRef="letter"/>'
BEGIN = '<startEvent id="begin"/>'
END = '<endEvent id="end"/>'


def flow(source: str, target: str) -> str:
    """A sequence flow."""
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}"/>'


def flows(*ids: str) -> str:
    """Elements one after the other."""
    return "".join(flow(source, target) for source, target in pairwise(ids))


def task(key: str, job_type: str) -> str:
    """A service task."""
    definition = f'<zeebe:taskDefinition type="{job_type}"/>'
    return f'<serviceTask id="{key}"><extensionElements>{definition}</extensionElements></serviceTask>'


def boundary(key: str, host: str, target: str, event: str, *, interrupting: bool = True, name: str = "a week") -> str:
    """A boundary event and the flow out of it."""
    cancels = str(interrupting).lower()
    return (
        f'<boundaryEvent id="{key}" name="{name}" attachedToRef="{host}" cancelActivity="{cancels}">'
        f"<outgoing>{key}-{target}</outgoing>{event}</boundaryEvent>{flow(key, target)}"
    )


def model(key: str, message: str, *parts: str) -> bytes:
    """A model that knows one message, by `corr_case`."""
    letter = (
        f'<message id="letter" name="{message}"><extensionElements>'
        '<zeebe:subscription correlationKey="=corr_case"/></extensionElements></message>'
    )
    return document(letter, process(*parts, key=key))


def line(key: str, message: str, domain: str, *verbs: str) -> bytes:
    """One task after the other."""
    names = [f"task{number}" for number in range(len(verbs))]
    tasks = [task(name, f"{domain}.{verb}") for name, verb in zip(names, verbs, strict=True)]
    return model(key, message, BEGIN, END, *tasks, flows("begin", *names, "end"))


def waits_for(key: str, message: str, domain: str, event: str) -> bytes:
    """A step, a wait, a step."""
    return model(
        key,
        message,
        BEGIN,
        END,
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        f'<intermediateCatchEvent id="wait" name="documents">{event}</intermediateCatchEvent>',
        flows("begin", "one", "wait", "two", "end"),
    )


def receives(key: str, message: str, domain: str, *, interrupting: bool) -> bytes:
    """A receive task with a timer at its edge that leads to another step."""
    return model(
        key,
        message,
        BEGIN,
        END,
        '<endEvent id="late"/>',
        '<receiveTask id="wait" name="documents" messageRef="letter"/>',
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        boundary("week", "wait", "two", TIMER, interrupting=interrupting),
        flows("begin", "wait", "one", "end"),
        flow("two", "late"),
    )


def asks_and_hears(key: str, message: str, domain: str, *, interrupting: bool) -> bytes:
    """A task that takes its time, with a message at its edge."""
    return model(
        key,
        message,
        BEGIN,
        END,
        '<endEvent id="late"/>',
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        boundary("heard", "one", "two", LETTER, interrupting=interrupting, name="documents"),
        flows("begin", "one", "end"),
        flow("two", "late"),
    )


def chooses(key: str, message: str, domain: str) -> bytes:
    """What comes first, a message or a timer."""
    return model(
        key,
        message,
        BEGIN,
        END,
        '<endEvent id="late"/>',
        '<eventBasedGateway id="choice"><outgoing>choice-came</outgoing><outgoing>choice-late-timer</outgoing>'
        "</eventBasedGateway>",
        f'<intermediateCatchEvent id="came" name="documents">{LETTER}</intermediateCatchEvent>',
        f'<intermediateCatchEvent id="late-timer" name="a week">{TIMER}</intermediateCatchEvent>',
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        flows("begin", "choice", "came", "one", "end"),
        flows("choice", "late-timer", "two", "late"),
    )


def bounded(key: str, message: str, domain: str) -> bytes:
    """A wait inside a subprocess whose time runs out, beside a wait outside of it."""
    inner = (
        '<startEvent id="in"/><endEvent id="out"/>'
        f'<intermediateCatchEvent id="inner" name="documents">{LETTER}</intermediateCatchEvent>'
        f"{flows('in', 'inner', 'out')}"
    )
    return model(
        key,
        message,
        BEGIN,
        END,
        '<endEvent id="late"/><parallelGateway id="fork"/><endEvent id="other-end"/>',
        f'<subProcess id="part" name="part">{inner}</subProcess>',
        '<intermediateCatchEvent id="outer" name="a day"><timerEventDefinition><timeDuration>PT9H</timeDuration>'
        "</timerEventDefinition></intermediateCatchEvent>",
        task("two", f"{domain}.second"),
        boundary("week", "part", "two", TIMER),
        flows("begin", "fork", "part", "end"),
        flows("fork", "outer", "other-end"),
        flow("two", "late"),
    )


def reviews(key: str, message: str, domain: str, *, asked: str = "", interrupting: bool = True) -> bytes:
    """A person decides in time, or another step is taken; `asked` are the extensions of the user task."""
    return model(
        key,
        message,
        BEGIN,
        END,
        '<endEvent id="late"/><userTask id="review" name="review">'
        f"<extensionElements>{asked}</extensionElements></userTask>",
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        boundary("week", "review", "two", TIMER, interrupting=interrupting),
        flows("begin", "review", "one", "end"),
        flow("two", "late"),
    )


def forks(key: str, message: str, domain: str) -> bytes:
    """Two steps side by side."""
    return model(
        key,
        message,
        BEGIN,
        END,
        '<parallelGateway id="fork"/><parallelGateway id="join"/>',
        task("one", f"{domain}.first"),
        task("two", f"{domain}.second"),
        flows("begin", "fork", "one", "join", "end"),
        flows("fork", "two", "join"),
    )


def started_by_message(key: str, message: str, domain: str) -> bytes:
    """A process that only a message starts."""
    return model(
        key,
        message,
        f'<startEvent id="begin">{LETTER}</startEvent>',
        END,
        task("one", f"{domain}.first"),
        flows("begin", "one", "end"),
    )
