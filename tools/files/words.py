"""Parameter types that several file verbs share, with their bounds and descriptions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Path = Annotated[str, Meta(min_length=1)]
Source = Annotated[str, Meta(min_length=1, description="What is there; a whole tree if a folder.")]
Destination = Annotated[
    str, Meta(min_length=1, description="Its new path itself, not a folder to put it in.")
]
Overwrite = Annotated[bool, Meta(description="Replace what stands at dest.")]
