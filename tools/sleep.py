"""`sleep`: let time pass."""

from __future__ import annotations

from typing import Annotated, TypedDict

import trio
from msgspec import Meta

from awaitbox.host.context import Context
from awaitbox.host.limits import SLEEP_MAX_SECONDS, SLEEP_MIN_SECONDS
from awaitbox.host.verb import verb


class Sleep(TypedDict):
    seconds: float


@verb(kind="read")
async def sleep(
    ctx: Context,
    seconds: Annotated[
        float, Meta(ge=SLEEP_MIN_SECONDS, le=SLEEP_MAX_SECONDS, description="How long.")
    ],
    *,
    reason: Annotated[str | None, Meta(description="What is waited for, for the reader.")] = None,
) -> Sleep:
    """Wait so many seconds, inside a loop that looks at something each time. Ends at once when
    cancelled."""
    await trio.sleep(seconds)
    return {"seconds": seconds}
