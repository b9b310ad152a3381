"""Which prefix each published page holds: a tree with one node per page of tokens.

A page that was full is shared by as many as want it. The part-filled last page of a request that ended is a tail: one
later request may take it over and go on writing in it.

A node's name is (its parent, its tokens), compared token by token, so two different prefixes can never be taken for one
another; a root's name is whatever else the keys and values depend on (adapter, salt). A node has one page per KV group,
or -1 where that group has none (never written, or taken for something else).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from weakref import WeakValueDictionary

from cutaway.cache.prefix_misses import Evicted, Label, PrefixBreak, find_break, shared_length
from cutaway.cache.snapshot import Published


class Node:
    """`tokens` lie in `pages[group]`, if the tokens before them are those of `parent`. label: its root's key and a
    hash of all of them, by which evicted nodes are remembered; no decision rests on it."""

    __slots__ = ("__weakref__", "children", "label", "pages", "parent", "tails", "tokens")

    def __init__(self, parent: Node | None, tokens: tuple[int, ...], groups: int, key: Hashable = None) -> None:
        self.parent = parent
        self.label: Label = (key, 0) if parent is None else (parent.label[0], hash((parent.label[1], tokens)))
        self.tokens = tokens
        self.pages = [-1] * groups
        self.children: dict[tuple[int, ...], Node] = {}
        self.tails: dict[tuple[int, ...], Node] = {}


class PrefixTree:
    """Finds the published pages of a prefix. Who holds them, and for how long, is the pools' business."""

    def __init__(self, groups: int, page_size: int) -> None:
        self._groups = groups
        self._page_size = page_size
        # A root lives as long as something under it does, or a request holds it: salts may be without number.
        self._roots: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
        self._evicted = Evicted()
        self._owner: list[dict[int, Node]] = [{} for _ in range(groups)]  # per group: published page -> its node

    def root(self, key: Hashable) -> Node:
        """Where prefixes of this key begin. The node stays valid as long as the caller keeps it."""
        root = self._roots.get(key)
        if root is None:
            root = self._roots[key] = Node(None, (), self._groups, key)
        return root

    def walk(self, key: Hashable, tokens: Sequence[int]) -> Iterator[Node]:
        """The known nodes of the prefix, from its first page on; some of their pages may be missing."""
        node = self._roots.get(key)
        for start in range(0, len(tokens) - self._page_size + 1, self._page_size):
            if node is None:
                return
            node = node.children.get(tuple(tokens[start : start + self._page_size]))
            if node is not None:
                yield node

    def extend(self, parent: Node, tokens: tuple[int, ...]) -> Node:
        """The node after `parent` for a page of tokens, or for a tail if they are fewer; made if it is not there."""
        assert 0 < len(tokens) <= self._page_size
        siblings = parent.children if len(tokens) == self._page_size else parent.tails
        node = siblings.get(tokens)
        if node is None:
            node = siblings[tokens] = Node(parent, tokens, self._groups)
        return node

    def longest_tail(self, parent: Node, tokens: Sequence[int]) -> tuple[Node | None, int]:
        """The whole tail after `parent` that begins most like `tokens`, and how many tokens they have in common."""
        best, most = None, 0
        for node in parent.tails.values():
            common = shared_length(node.tokens, tokens)
            if common > most and -1 not in node.pages:
                best, most = node, common
        return best, most

    def find_break(self, node: Node, tokens: Sequence[int], found: int, *, lacking: bool) -> PrefixBreak | None:
        """Where and why the match of `tokens` ended: `found` of them, up to `node`. lacking: the next node is known,
        and a page of it, or of the window before it, is not there any more."""
        if lacking:
            return PrefixBreak(found, tokens[found], "evicted")
        live = chain(reversed(node.children), reversed(node.tails))
        return find_break(tokens, found, live, self._evicted.after(node.label), self._page_size)

    def remember(self, parent: Node, tokens: tuple[int, ...]) -> None:
        """`tokens` were written after `parent`, and cannot be found any more."""
        self._evicted.add(parent.label, tokens)

    def forget(self) -> None:
        """What was evicted was never seen."""
        self._evicted.clear()

    def attach(self, node: Node, group: int, page: int) -> None:
        """The page holds the node's tokens. A node has at most one page per group."""
        assert node.pages[group] == -1 and page not in self._owner[group]
        node.pages[group] = page
        self._owner[group][page] = node

    def detach(self, group: int, page: int) -> None:
        """The page holds something else from now on. Nodes that lead nowhere are dropped."""
        node: Node | None = self._owner[group].pop(page)
        assert node is not None
        node.pages[group] = -1
        while node is not None and node.parent is not None and not node.children and not node.tails:
            if max(node.pages) != -1:
                return
            parent = node.parent
            self.remember(parent, node.tokens)
            for siblings in (parent.children, parent.tails):
                if siblings.get(node.tokens) is node:
                    del siblings[node.tokens]
            node = parent

    def published(self, group: int) -> tuple[Published, tuple[Hashable, ...]]:
        """The published pages of a group, and the keys that they were written under."""
        found = Published(array("i"), array("i"), array("i"), array("q"), array("i"))
        keys: dict[Hashable, int] = {}
        starts: dict[Node, int] = {}
        for page, node in self._owner[group].items():
            found.page.append(page)
            found.position.append(_start(node, starts))
            found.tokens.append(len(node.tokens))
            found.prefix.append(node.label[1])
            found.owner.append(keys.setdefault(node.label[0], len(keys)))
        return found, tuple(keys)

    def pages(self, group: int) -> set[int]:
        """All published pages of a group (for the ledger check)."""
        return set(self._owner[group])


def _start(node: Node, known: dict[Node, int]) -> int:
    """Position of the node's first token. known: of nodes that were asked for before; added to."""
    path: list[Node] = []
    while node not in known and node.parent is not None:
        path.append(node)
        node = node.parent
    start = known[node] + len(node.tokens) if node in known else 0
    for node in reversed(path):
        known[node] = start
        start += len(node.tokens)
    return known[path[0]] if path else start - len(node.tokens)
