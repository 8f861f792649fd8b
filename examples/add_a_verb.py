"""Verbs of your own, beside ours: typed async functions that run in the host.

    python examples/add_a_verb.py

The signature becomes the schema, the docstring the help, and the name stands bare in every cell.
A call with a wrong argument is a TypeError in the cell, before anything runs.
"""

from typing import Annotated, TypedDict

import trio
from msgspec import Meta

from awaitbox import open_host


class Stock(TypedDict):
    item: str
    pieces: int


SHELVES = {"bolt": 40, "nut": 7}


async def stock(item: str) -> Stock:
    """How many pieces of an item are on the shelf."""
    return {"item": item, "pieces": SHELVES.get(item, 0)}


CELL = """
low = [item for item in ("bolt", "nut") if (await stock(item))["pieces"] < 10]
for item in low:
    print(await order(item, pieces=20))
low
"""


async def main() -> None:
    async with open_host(".", verbs=[stock]) as host:

        @host.verb
        async def order(
            item: str, *, pieces: Annotated[int, Meta(ge=1, le=100, description="How many.")] = 1
        ) -> Stock:
            """Order pieces of an item; gives what the shelf will hold."""
            SHELVES[item] = SHELVES.get(item, 0) + pieces
            return {"item": item, "pieces": SHELVES[item]}

        async with host.open_session() as session:
            result = await session.execute(CELL)
            print(result.stdout, end="")
            print("value:", result.value)

            result = await session.execute("await order('nut', count=1)")
            assert result.error is not None
            print("refused:", result.error["type"])

        schema = next(tool for tool in host.tools("mcp") if tool["name"] == "order")
        print("schema:", schema["inputSchema"]["properties"]["pieces"])


if __name__ == "__main__":
    trio.run(main)
