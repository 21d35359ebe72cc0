"""LangGraph: one wrapper around the tool node, and no tool of the graph runs without the session."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from hookgate import Runtime, Session
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolCallRequest

from examples.frameworks import story

Execute = Callable[[ToolCallRequest], Awaitable[Any]]


def model(state: MessagesState) -> dict[str, Any]:
    """Stands in for a chat model: one tool call a turn, then the answer."""
    turn = sum(isinstance(message, AIMessage) for message in state["messages"])
    if turn == len(story.CALLS):
        return {"messages": [AIMessage(story.ANSWER)]}
    call_id, name, args = story.CALLS[turn]
    return {"messages": [AIMessage("", tool_calls=[{"id": call_id, "name": name, "args": args}])]}


# -- yours from here
def govern(session: Session) -> Callable[[ToolCallRequest, Execute], Awaitable[ToolMessage]]:
    """What ``ToolNode(…, awrap_tool_call=…)`` takes: each call of the graph's model becomes a call of the session."""

    async def call(request: ToolCallRequest, execute: Execute) -> ToolMessage:
        asked = request.tool_call

        async def run(args: dict[str, Any]) -> Any:
            # The arguments that the hooks and people let pass, which may not be those that the model asked for.
            answer = await execute(request.override(tool_call={**asked, "args": args}))
            return answer.content if isinstance(answer, ToolMessage) else answer

        outcome = await session.call_tool(asked["name"], asked["args"], execute=run, tool_call_id=asked["id"])
        return ToolMessage(
            outcome.observation,
            name=asked["name"],
            tool_call_id=asked["id"] or "",
            status="success" if outcome.status == "succeeded" else "error",
        )

    return call


def build(session: Session, tools: list[StructuredTool]) -> Any:
    """A graph of a model and its tools, governed by ``session``."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    # A tool's exception must reach the session, or a failed call would count as one that succeeded.
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=False, awrap_tool_call=govern(session)))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


# -- to here


async def main() -> None:
    """One conversation, governed by the portal that the environment names."""
    tools = [StructuredTool.from_function(tool, name=name) for name, tool in story.TOOLS.items()]
    async with (
        Runtime.from_env(name="langgraph") as runtime,
        runtime.session("procurement", user=story.USER, conversation_id=f"graph-{uuid.uuid4()}") as session,
    ):
        ended = await build(session, tools).ainvoke({"messages": [HumanMessage(story.PROMPT)]})
    for message in ended["messages"]:
        if isinstance(message, ToolMessage):
            print(message.content)
    print(ended["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main())
