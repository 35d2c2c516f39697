"""SpiffWorkflow on five tasks, in memory, its state written as JSON after each: `spiff_steps.py INSTANCES ALONE`."""

import importlib
import logging
import sys
from itertools import pairwise
from typing import Any

from bench.contenders.course import STEPS, TEXT, Course

_HEAD = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="bench">'
    '<bpmn:process id="five" isExecutable="true"><bpmn:startEvent id="begin"/>'
)


def model() -> bytes:
    """Start, five tasks in a row, end."""
    places = ["begin", *(f"task_{number}" for number in range(STEPS)), "end"]
    flows = [(f"flow_{number}", *pair) for number, pair in enumerate(pairwise(places))]
    nodes = "".join(f'<bpmn:task id="{place}"/>' for place in places[1:-1]) + '<bpmn:endEvent id="end"/>'
    lines = "".join(f'<bpmn:sequenceFlow id="{id_}" sourceRef="{a}" targetRef="{b}"/>' for id_, a, b in flows)
    return f"{_HEAD}{nodes}{lines}</bpmn:process></bpmn:definitions>".encode()


def main(instances: int, alone: int) -> None:
    """Run a crowd, then single ones."""
    spiff: Any = importlib.import_module  # not installed where this file is checked
    create = spiff("SpiffWorkflow.bpmn.workflow").BpmnWorkflow
    ready = spiff("SpiffWorkflow.util.task").TaskState.READY
    serializer = spiff("SpiffWorkflow.bpmn.serializer").BpmnWorkflowSerializer()
    parser = spiff("SpiffWorkflow.bpmn.parser").BpmnParser()
    parser.add_bpmn_str(model())
    spec = parser.get_spec("five")

    def one() -> None:
        workflow = create(spec)
        workflow.data["text"] = TEXT
        workflow.do_engine_steps()
        while not workflow.completed:
            for task in workflow.get_tasks(state=ready, manual=True):
                task.run()
                workflow.do_engine_steps()
                serializer.serialize_json(workflow)

    course = Course()
    one()
    course.begin()
    for _ in range(instances):
        one()
    course.worked()
    for _ in range(alone):
        course.expect(1)
        one()
        course.noted_alone()
    course.tell()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(int(sys.argv[1]), int(sys.argv[2]))
