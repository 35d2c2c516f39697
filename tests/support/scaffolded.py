"""The process of the scaffold's tests: where its files are, and how it is written into a folder."""

from pathlib import Path

from tests.support.project import Project

NAME = "parcel-return"
APP = ("--app", "verbs.parcel_return:registry")
HOME = f"processes/{NAME}"
MODEL = f"{HOME}/process.bpmn"
LOCK = f"{HOME}/compile.lock.json"
POLICIES = f"{HOME}/policies.yaml"
README = f"{HOME}/README.md"
DOCKERFILE = f"{HOME}/Dockerfile"
CATALOGUE = f"{HOME}/catalog-info.yaml"
PACKAGE = "verbs/parcel_return"
CONTRACT = f"{PACKAGE}/{NAME}.yaml"
MODULE = f"{PACKAGE}/parcel_return_gen.py"
VERBS = f"{PACKAGE}/outcome.py"


def scaffolded(folder: Path) -> Project:
    """A new process in a folder, by the command."""
    project = Project(folder)
    said = project.scaffold(NAME)
    assert said.code == 0, said.out + said.err
    return project
