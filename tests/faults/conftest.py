"""A root to launch under, empty or with data, with everything of it ended afterwards."""

from tests.support.roots import layout, tree

__all__ = ["layout", "tree"]
