"""The index of commands. Each is imported only when called, so no command waits for another's imports."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Command = Any  # typer does not export the base class of its commands
Context = Any


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command is defined, and its help in the list of commands; a test keeps the two equal."""

    module: str
    attribute: str
    help: str
    is_hidden: bool = False
    settings: dict[str, Any] | None = None
    example: str = ""

    def load(self, name: str) -> Command:
        """Import and return the command."""
        found = getattr(import_module(f"verbworker.cli.{self.module}"), self.attribute)
        command: Command
        if isinstance(found, typer.Typer):
            command = typer.main.get_group(found)
        else:
            alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            epilog = f"Example: {self.example}" if self.example else None
            alone.command(name, context_settings=self.settings, epilog=epilog)(found)
            command = typer.main.get_command(alone)
        command.name = name
        return command


PLACES: Mapping[str, CommandPlace] = {
    "demo": CommandPlace(
        "develop.demo",
        "demo",
        "Run one KYC case of the example from start to decision, then remove everything.",
        example="verbworker demo --engine embedded",
    ),
    "init": CommandPlace(
        "develop.init",
        "init",
        "Create a project with passing tests. Exits 1 if one of its files exists.",
        example="verbworker init my-app",
    ),
    "scaffold": CommandPlace(
        "develop.scaffold",
        "scaffold",
        "Create a process with passing tests, or recompile an existing one.",
        example="verbworker scaffold parcel-return",
    ),
    "dev": CommandPlace(
        "develop.dev",
        "dev",
        "Run a database, an engine and a worker until Ctrl-C, and show what happens.",
        example="verbworker dev --app verbs:registry --processes processes",
    ),
    "start": CommandPlace(
        "cases.start",
        "start",
        "Start a verb. Exits 1 if it is rejected or fails.",
        example="""verbworker start '(document.collect :client "Allianz" :document "passport")' --app verbs:registry""",
    ),
    "start-plain": CommandPlace(
        "cases.start_plain",
        "start_plain",
        "Start a process that is not hollow, with plain variables. Exits 1 if no such process is deployed.",
        example="""verbworker start-plain hello --variables '{"name": "Ada"}'""",
    ),
    "repl": CommandPlace(
        "cases.repl",
        "repl",
        "Start verbs, decide at gates and read the runbook interactively.",
        example="verbworker repl --app verbs:registry",
    ),
    "runbook": CommandPlace(
        "cases.runbook", "app", "The runbook: what was started, what it waits for, and what happened."
    ),
    "gates": CommandPlace("cases.gates", "app", "Gates: cases that wait for a person to decide."),
    "message": CommandPlace("operate.messages", "message", "Messages to cases that wait for them."),
    "console": CommandPlace(
        "operate.console",
        "console",
        "Serve the runbook in a browser: entries, gates to decide, incidents, dead letters and verbs.",
        example="verbworker console --app verbs:registry --port 8092",
    ),
    "dead-letters": CommandPlace("operate.messages", "dead_letters", "Messages that could not be delivered."),
    "lint": CommandPlace(
        "develop.lint",
        "lint",
        "Check that models are hollow. Takes every option of `verblint check`.",
        settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    ),
    "verify": CommandPlace(
        "develop.verify",
        "verify",
        "Verify that models, policies, locks, generated code and verbs agree. Exits 1 if they do not.",
        example="verbworker verify --app verbs:registry",
    ),
    "migrate": CommandPlace("develop.migrate", "app", "From plain processes to hollow ones: what is left to change."),
    "verbs": CommandPlace("develop.verbs", "app", "Verbs: what you can start, and element templates for modellers."),
    "deploy": CommandPlace(
        "operate.deploy",
        "deploy",
        "Lint, weave and deploy models. Exits 1 if the linter or the engine rejects one.",
        example="verbworker deploy processes --app verbs:registry",
    ),
    "worker": CommandPlace(
        "operate.worker",
        "worker",
        "Run the verbs of a registry.",
        example="verbworker worker --app verbs:registry --engine-id kyc-production",
    ),
    "api": CommandPlace("operate.http_api", "app", "The HTTP API: cases and messages for programs."),
    "ingress": CommandPlace(
        "operate.http_api",
        "ingress",
        "Accept messages over HTTP: POST /messages returns when the message is stored.",
        example="verbworker ingress --app verbs:registry --port 8091",
    ),
    "consume": CommandPlace(
        "operate.consume",
        "consume",
        "Take messages from a bus, a queue table or standard input. Each is acknowledged once it is stored.",
        example="verbworker consume --from bus:documents",
    ),
    "incidents": CommandPlace("operate.incidents", "app", "Incidents: cases that wait for an operator."),
    "engine": CommandPlace("operate.engine", "app", "The embedded engine: the tokens of a case."),
    "frames": CommandPlace("operate.frames", "app", "Frames: the history of each job, and jobs held for a person."),
    "db": CommandPlace("operate.db", "app", "The database and its migrations."),
    "erase": CommandPlace(
        "operate.erase",
        "erase",
        "Erase what an ended entry holds about a person. Exits 1 if it is unknown or still runs.",
        example="verbworker erase --entry 8b1f6a52 --dry-run",
    ),
    "doctor": CommandPlace(
        "operate.doctor",
        "doctor",
        "Check everything a worker depends on. Exits 1 if something is wrong.",
        example="verbworker doctor processes --app verbs:registry",
    ),
    "dev-hand": CommandPlace(
        "develop.dev", "dev_worker", "Deploy models and run their verbs as a part of `verbworker dev`.", is_hidden=True
    ),
}


class LazyGroup(TyperGroup):
    """The commands by name; loads only the one that is called."""

    _called: str | None = None

    def list_commands(self, ctx: Context) -> list[str]:
        """Return every name, in the order people learn them."""
        return list(PLACES)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command, list[str]]:
        """Resolve the command that is called."""
        self._called = args[0] if args else None
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command:
        """Return the command if it is called, else a stub that has only its help."""
        place = PLACES.get(cmd_name)
        if place is None:
            return None
        if cmd_name == self._called:
            return place.load(cmd_name)
        return TyperCommand(cmd_name, help=place.help, hidden=place.is_hidden)
