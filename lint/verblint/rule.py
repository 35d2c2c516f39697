"""A rule, and the context it checks."""

from collections.abc import Callable, Iterator, Mapping, Set

from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import BPMN, KNOWN_NAMESPACES, ZEEBE, Attribute, Document, Element, Place
from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope
from verblint.contracts.contract import Contracts, WorkflowVerbFields
from verblint.feel.branch import Branch, branches
from verblint.report import Finding, Fix, Severity, is_suppressible
from verblint.settings import ENGINES, HOLLOW, Settings
from verblint.startup import TYPE_CHECKING
from verblint.startup.value import value

if TYPE_CHECKING:
    from verblint.suppression import Suppression

Check = Callable[["Context"], Iterator[Finding]]

# Marks of a file other than its elements and namespaces, for rules that need them.
CONTRACTS = "contracts"
REFUSED = "refused"
COMMENTS = "comments"
OBSCURE = "obscure"
STRANGERS = "strangers"
NOT_EXECUTABLE = "not executable"
NARROWED = "narrowed"


def engine_marks(wanted: Callable[[tuple[int, int]], bool]) -> tuple[str, ...]:
    """Return the marks of the engine profiles whose version is `wanted`."""
    return tuple(engine for engine in ENGINES if wanted(Settings(engine=engine).engine_version))


def attribute_mark(namespace: str) -> str:
    """Return the mark of a file with attributes in a namespace."""
    return f"@{namespace}"


@value(guarded=False)
class Rule:
    """One check with a code and a slug; the docstring of the check is the page that `explain` prints.

    `on` lists the marks of a file that the rule is about, such as elements, attributes and namespaces; `words` are
    parts of values. In a file with none of them the rule finds nothing and does not run. A rule with neither checks
    every file.
    """

    code: str
    slug: str
    severity: Severity
    check: Check
    on: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The whole explanation: what, why, wrong and right."""
        # Imported here because a check never needs pages.
        from inspect import cleandoc

        return cleandoc(self.check.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0]

    @property
    def is_suppressible(self) -> bool:
        """Whether a model may suppress findings of this rule."""
        return is_suppressible(self.code)

    def concerns(self, marks: Set[str], document: Document) -> bool:
        """Return whether the rule may find something in a file with these marks."""
        is_general = not self.on and not self.words
        return is_general or not marks.isdisjoint(self.on) or any(map(document.may_hold, self.words))

    def run(self, context: "Context") -> list[Finding]:
        """Return the rule's findings in one file. A crash adds a finding and does not stop other rules."""
        found: list[Finding] = []
        try:
            found.extend(self.check(context.under(self)))
        except Exception as error:
            message = f"the rule {self.slug} stopped with {type(error).__name__}, so this file was not checked by it"
            hint = "This is a bug of verblint: report it with the model"
            found.append(context.under(CRASHED).at(context.root, message, hint=hint, detail=self.slug))
        return found


def rule(
    code: str, *, severity: Severity = Severity.ERROR, on: tuple[str, ...] = (), words: tuple[str, ...] = ()
) -> Callable[[Check], Rule]:
    """Turn a generator of findings into a Rule of the same name, which replaces it in the module."""
    return lambda check: Rule(code, check.__name__.replace("_", "-"), severity, check, on, words)


def _check_nothing(context: "Context") -> Iterator[Finding]:
    """A rule must end without an exception.

    A crash is a bug of verblint, never of the model. It is a finding so that a file which was not fully checked
    is never taken for a clean one; all other rules have run.

    Wrong:  a rule that raises KeyError on an unusual model
    Right:  a new release of verblint, with that model among its fixtures
    """
    return iter(())


CRASHED = Rule("HB099", "rule-crashed", Severity.ERROR, _check_nothing)


@value(guarded=False)
class Context:
    """Everything a rule may know about one file: the tree, the model, its branches, the settings and the contracts.

    `unused` are the suppressions without a finding, set after all other rules ran. `today` is YYYY-MM-DD; empty means
    the clock's date.
    """

    root: Element
    model: Definitions
    branches: tuple[Branch, ...]
    settings: Settings
    contracts: Contracts
    unused: "tuple[Suppression, ...]" = ()
    today: str = ""
    rule: Rule | None = None

    @classmethod
    def of(cls, root: Element, settings: Settings, contracts: Contracts, today: str = "") -> "Context":
        """Create the context of a tree, before any rule runs."""
        model = assemble(root)
        return cls(root, model, tuple(branches(model)), settings, contracts, today=today)

    @property
    def elements(self) -> Mapping[tuple[str, str], ElementGroup]:
        """The elements of the file by name, in document order per name, without the content of diagrams."""
        return self.root.document.elements

    @property
    def marks(self) -> Iterator[str]:
        """What the file has that a rule may be about; may contain duplicates."""
        document = self.root.document
        for namespace, local in document.elements:
            yield namespace
            yield local
        for namespace, local in document.attribute_names:
            yield local
            if namespace:
                yield attribute_mark(namespace)
        if any(branch.error is not None for branch in self.branches):
            yield REFUSED
        yield self.settings.engine
        if document.interruptions:
            yield COMMENTS
        if not document.is_plain:
            yield OBSCURE
        if not document.namespaces <= KNOWN_NAMESPACES:
            yield STRANGERS
        if not self.model.processes or len(self.model.executable) < len(self.model.processes):
            yield NOT_EXECUTABLE
        if self.settings.profile != HOLLOW:
            yield NARROWED
        if self.contracts.workflows or self.contracts.directs or self.contracts.policies:
            yield CONTRACTS

    def under(self, rule: Rule) -> "Context":
        """Return the context in which a rule runs."""
        return Context(
            *(self.root, self.model, self.branches, self.settings, self.contracts, self.unused, self.today, rule)
        )

    @property
    def workflows(self) -> Iterator[tuple[Process, WorkflowVerbFields]]:
        """The processes of workflow verbs, each with the contract of its verb."""
        for process in self.model.processes:
            verb = self.contracts.of_process(process.id)
            if verb is not None:
                yield process, verb

    def nodes(self, *kinds: NodeKind) -> Iterator[tuple[Scope, FlowNode]]:
        """Yield the nodes of all processes, or those of some kinds, each with the scope that contains it."""
        for process in self.model.processes:
            yield from process.walk(*kinds)

    def refused_conditions(self) -> Iterator[Finding]:
        """Yield the conditions that the grammar refuses with the code of the running rule."""
        for branch in self.branches:
            error = branch.error
            if error is not None and self.rule is not None and error.code == self.rule.code:
                yield self.at(branch.condition.part(error.start, error.end), error.message, hint=error.hint)

    def every(self, *locals: str, namespace: str = BPMN) -> Iterator[Element]:
        """Yield the elements with one of these names, in document order per name."""
        return (element for local in locals for element in self.elements.get((namespace, local), ()))

    def within(self, *namespaces: str) -> Iterator[Element]:
        """Yield the elements of these namespaces, grouped by name."""
        return (e for (namespace, _), group in self.elements.items() if namespace in namespaces for e in group)

    def attributes_in(self, *namespaces: str) -> Iterator[Attribute]:
        """Yield the attributes of BPMN and zeebe elements that are in one of these namespaces."""
        # Hardly any file has such attributes, and the reader has recorded their names.
        if any(namespace in namespaces for namespace, _ in self.root.document.attribute_names):
            for element in self.within(BPMN, ZEEBE):
                yield from (attribute for attribute in element.attributes if attribute.namespace in namespaces)

    def at(
        self,
        where: Place | Element | Expression,
        message: str,
        *,
        hint: str = "",
        detail: str = "",
        fix: Fix | None = None,
    ) -> Finding:
        """Create a finding of the running rule at a place. Its owner is the nearest element with an id."""
        assert self.rule is not None, "a finding belongs to a rule that is running"
        place = where if isinstance(where, Place) else where.place
        owner = owner_of(place.element)
        start, end = place.position, place.end_position
        return Finding(
            code=self.rule.code,
            slug=self.rule.slug,
            severity=self.rule.severity,
            message=message,
            hint=hint,
            file=self.root.document.source.name,
            line=start.line,
            column=start.column,
            end_line=end.line,
            end_column=end.column,
            offset=place.start,
            element_id=owner.id,
            element_name=owner.get("name") or "",
            element_type=owner.local,
            process_id=process_id(place.element),
            detail=detail,
            fix=fix,
        )


def owner_of(element: Element) -> Element:
    """Return the nearest element with an id, which is the name people use."""
    return next((e for e in (element, *element.ancestors) if e.id), element)


def process_id(element: Element) -> str:
    """Return the id of the process that contains an element, or an empty string."""
    return next((e.id for e in (element, *element.ancestors) if e.is_a("process")), "")
