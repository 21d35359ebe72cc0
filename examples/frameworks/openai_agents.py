"""OpenAI Agents SDK: each function tool is exchanged for one that asks the session before it runs."""

import asyncio
import dataclasses
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.items import ToolCallOutputItem
from agents.tool_context import ToolContext
from hookgate import Runtime, Session
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from examples.frameworks import story


class ScriptedModel(Model):
    """Stands in for a model: one tool call a turn, then the answer."""

    def __init__(self) -> None:
        self._turn = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The next line of the script."""
        turn, self._turn = self._turn, self._turn + 1
        said: ResponseFunctionToolCall | ResponseOutputMessage
        if turn == len(story.CALLS):
            text = ResponseOutputText(type="output_text", text=story.ANSWER, annotations=[])
            said = ResponseOutputMessage(
                id="msg", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            call_id, name, wanted = story.CALLS[turn]
            said = ResponseFunctionToolCall(
                type="function_call", call_id=call_id, name=name, arguments=json.dumps(wanted)
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """The script isn't streamed."""
        raise RuntimeError("use Runner.run with this model")


# -- yours from here
def govern(tool: FunctionTool, session: Session) -> FunctionTool:
    """The same tool for the model; when it is called, the session's hooks and people come first.

    Make the tool with ``failure_error_function=None``: its exception must reach the session, or a failed call would
    count as one that succeeded.
    """

    async def invoke(context: ToolContext[Any], text: str) -> str:
        async def run(args: dict[str, Any]) -> Any:
            return await tool.on_invoke_tool(context, json.dumps(args))

        try:
            args = json.loads(text or "{}")
        except ValueError as error:
            return f"The arguments of {tool.name} are not JSON: {error}"
        outcome = await session.call_tool(tool.name, args, execute=run, tool_call_id=context.tool_call_id)
        return outcome.observation

    return dataclasses.replace(tool, on_invoke_tool=invoke)


# -- to here


async def main() -> None:
    """One conversation, governed by the portal that the environment names."""
    async with (
        Runtime.from_env(name="openai-agents") as runtime,
        runtime.session("procurement", user=story.USER, conversation_id=f"sdk-{uuid.uuid4()}") as session,
    ):
        tools = [
            govern(function_tool(tool, name_override=name, failure_error_function=None), session)
            for name, tool in story.TOOLS.items()
        ]
        agent = Agent("Procurement", instructions=session.context, tools=[*tools], model=ScriptedModel())
        ended = await Runner.run(agent, story.PROMPT, run_config=RunConfig(tracing_disabled=True))
    for item in ended.new_items:
        if isinstance(item, ToolCallOutputItem):
            print(item.output)
    print(ended.final_output)


if __name__ == "__main__":
    asyncio.run(main())
