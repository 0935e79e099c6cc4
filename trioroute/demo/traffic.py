"""A trickle of agent-like traffic: sessions that grow step by step over shared system prompts."""

import random

import httpx
import trio

PROJECTS = ("billing", "search")
SESSIONS = 8
STEPS = 12
THINK_S = (0.3, 2.0)
ANSWER_TOKENS = (16, 80)

_RULES = "Follow the project's conventions, run the tests, and explain every change you make. "


def system_prompt(project: str) -> str:
    return f"You are a coding agent of the project {project}. " + _RULES * 40


async def agents(api: str, model: str, seed: int) -> None:
    """Run the agents until cancelled; errors are the router's to tell, not the traffic's."""
    limits = httpx.Limits(max_connections=SESSIONS * 2)
    async with httpx.AsyncClient(
        base_url=api, timeout=60, limits=limits, trust_env=False
    ) as client:
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS):
                nursery.start_soon(_agent, client, model, number, random.Random(seed + number))


async def _agent(client: httpx.AsyncClient, model: str, number: int, chance: random.Random) -> None:
    project = PROJECTS[number % len(PROJECTS)]
    life = 0
    while True:
        life += 1
        session = f"{project}-agent{number}-{life}"
        messages = [{"role": "system", "content": system_prompt(project)}]
        for step in range(STEPS):
            await trio.sleep(chance.uniform(*THINK_S))
            messages.append({"role": "user", "content": f"Step {step}: " + "look around. " * 60})
            answer = await _ask(client, model, session, messages, chance.randint(*ANSWER_TOKENS))
            messages.append({"role": "assistant", "content": answer})


async def _ask(
    client: httpx.AsyncClient,
    model: str,
    session: str,
    messages: list[dict[str, str]],
    tokens: int,
) -> str:
    body = {"model": model, "messages": messages, "max_tokens": tokens, "stream": True}
    received = 0
    try:
        async with client.stream(
            "POST", "/chat/completions", json=body, headers={"x-session-id": session}
        ) as response:
            async for chunk in response.aiter_bytes():
                received += len(chunk)
    except httpx.HTTPError:
        await trio.sleep(1)
    return "done. " * (received // 200)
