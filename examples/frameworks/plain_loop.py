"""A loop of one's own, without a framework: a chat completion's messages, and each tool call through a session."""

import asyncio
import json
import uuid
from typing import Any

from hookgate import Runtime, Session

from examples.frameworks import story

Message = dict[str, Any]


def model(messages: list[Message]) -> Message:
    """Stands in for a chat completion: one tool call a turn, then the answer."""
    turn = sum(message["role"] == "assistant" for message in messages)
    if turn == len(story.CALLS):
        return {"role": "assistant", "content": story.ANSWER}
    call_id, name, args = story.CALLS[turn]
    function = {"name": name, "arguments": json.dumps(args)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


# -- yours from here
async def act(session: Session, call: dict[str, Any]) -> Message:
    """Run one tool call of the model, if the hooks and people let it; the message is what the model reads."""
    tool = story.TOOLS[call["function"]["name"]]
    outcome = await session.call_tool(
        call["function"]["name"],
        json.loads(call["function"]["arguments"]),
        execute=lambda args: tool(**args),
        tool_call_id=call["id"],
    )
    return {"role": "tool", "tool_call_id": call["id"], "content": outcome.observation}


async def converse(session: Session, prompt: str) -> str:
    """Play one prompt to its end and return the answer."""
    submitted = await session.emit("UserPromptSubmit", prompt=prompt)
    if not submitted.allow:
        return f"Refused: {submitted.error}"
    messages: list[Message] = [
        {"role": "system", "content": session.context},
        {"role": "user", "content": prompt},
    ]
    while True:
        reply = model(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return str(reply["content"])
        for call in reply["tool_calls"]:
            messages.append(await act(session, call))
            print(messages[-1]["content"], flush=True)


# -- to here


async def main() -> None:
    """One conversation, governed by the portal that the environment names."""
    async with (
        Runtime.from_env(name="plain-loop") as runtime,
        runtime.session("procurement", user=story.USER, conversation_id=f"plain-{uuid.uuid4()}") as session,
    ):
        print(await converse(session, story.PROMPT))


if __name__ == "__main__":
    asyncio.run(main())
