"""Order the nodes of a flow from left to right: which flows lead back, and the column of every node.

Nodes are numbers, flows are pairs of numbers. Every step takes time in proportion to nodes and flows.
"""

from collections.abc import Sequence

_NEW, _OPEN, _DONE = 0, 1, 2


class Layers:
    """The columns of nodes, and how many columns follow each of them."""

    def __init__(self, count: int, flows: Sequence[tuple[int, int]], starts: Sequence[int]) -> None:
        """Order nodes; search for loops from the starts, then from nodes that no flow enters."""
        self.flows = flows
        self.outgoing: list[list[int]] = [[] for _ in range(count)]
        self._incoming: list[list[int]] = [[] for _ in range(count)]
        for index, (source, target) in enumerate(flows):
            self.outgoing[source].append(index)
            self._incoming[target].append(index)
        sources = [node for node in range(count) if not self._incoming[node]]
        self.roots = list(dict.fromkeys([*starts, *sources, *range(count)]))
        self.back = self._find_back()
        order = self._order(count)
        self.columns = self._columns(count, order)
        self.heights = self._heights(count, order)

    def ahead(self, node: int) -> list[int]:
        """Return the flows from a node that do not lead back."""
        return [index for index in self.outgoing[node] if index not in self.back]

    def _find_back(self) -> set[int]:
        """Return the flows that close a loop, by a search in depth."""
        state = [_NEW] * len(self.outgoing)
        back: set[int] = set()
        for root in self.roots:
            stack = [(root, 0)] if state[root] == _NEW else []
            while stack:
                node, at = stack.pop()
                state[node] = _OPEN
                if at == len(self.outgoing[node]):
                    state[node] = _DONE
                    continue
                stack.append((node, at + 1))
                index = self.outgoing[node][at]
                target = self.flows[index][1]
                if state[target] == _OPEN:
                    back.add(index)
                elif state[target] == _NEW:
                    stack.append((target, 0))
        return back

    def _order(self, count: int) -> list[int]:
        """Return the nodes so that every flow that does not lead back points to a later one."""
        waits = [sum(index not in self.back for index in self._incoming[node]) for node in range(count)]
        order = [node for node in self.roots if not waits[node]]
        # The list grows while it is walked.
        for node in order:
            for index in self.ahead(node):
                target = self.flows[index][1]
                waits[target] -= 1
                if not waits[target]:
                    order.append(target)
        return order

    def _columns(self, count: int, order: Sequence[int]) -> list[int]:
        columns = [0] * count
        for node in order:
            for index in self.ahead(node):
                target = self.flows[index][1]
                columns[target] = max(columns[target], columns[node] + 1)
        for node in order:
            # A node that only leads into the middle of the flow stands beside that place.
            following = [columns[self.flows[index][1]] for index in self.ahead(node)]
            if following and not any(index not in self.back for index in self._incoming[node]):
                columns[node] = min(following) - 1
        return columns

    def _heights(self, count: int, order: Sequence[int]) -> list[int]:
        heights = [0] * count
        for node in reversed(order):
            heights[node] = max((heights[self.flows[index][1]] + 1 for index in self.ahead(node)), default=0)
        return heights
