"""Reference loops: how an agent program wires every hook point. Small enough to be copied and changed.

`react` is a model that picks tools until it answers; `dag` runs a fixed plan of tool calls.
"""

from hookgate.loops import dag, react

__all__ = ["dag", "react"]
