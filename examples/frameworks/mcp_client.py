"""An MCP client whose calls go through the session: the server may be anybody's."""

import asyncio
import sys
import uuid
from typing import Any

from hookgate import Runtime, Session
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from examples.frameworks import story


# -- yours from here
class ToolFailed(Exception):
    """An MCP server answered ``isError``; the text is what it said."""


def text_of(answer: CallToolResult) -> str:
    """The texts of a tool's answer; raises :class:`ToolFailed` when the server calls it an error."""
    text = "\n".join(part.text for part in answer.content if isinstance(part, TextContent))
    if answer.is_error:
        raise ToolFailed(text)
    return text


async def call(session: Session, client: Client, name: str, args: dict[str, Any], call_id: str) -> str:
    """Let the MCP server run one tool, if the hooks and people let it; the text is what the model reads."""

    async def run(allowed: dict[str, Any]) -> str:
        return text_of(await client.call_tool(name, allowed))

    outcome = await session.call_tool(name, args, execute=run, tool_call_id=call_id)
    return outcome.observation


async def announce(runtime: Runtime, agent: str, client: Client) -> None:
    """Show the portal's admins which tools the server has, so that they can write filters for them."""
    listed = await client.list_tools()
    await runtime.announce_tools(
        agent,
        [
            {"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema}
            for tool in listed.tools
        ],
    )


# -- to here


async def main() -> None:
    """One conversation, governed by the portal that the environment names."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "examples.frameworks.mcp_server"])
    async with (
        Client(server) as client,
        Runtime.from_env(name="mcp-client") as runtime,
        runtime.session("procurement", user=story.USER, conversation_id=f"mcp-{uuid.uuid4()}") as session,
    ):
        await announce(runtime, "procurement", client)
        for call_id, name, args in story.CALLS:
            print(await call(session, client, name, args, call_id), flush=True)
        print(story.ANSWER)


if __name__ == "__main__":
    asyncio.run(main())
