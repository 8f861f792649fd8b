"""Parameter types that several shell verbs share, with their bounds and descriptions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Line = Annotated[str, Meta(min_length=1)]
Commands = Annotated[
    list[Line], Meta(min_length=1, description="bash lines, run strictly in order.")
]
Folder = Annotated[
    str | None, Meta(description="Folder below an allowed root; the workspace when omitted.")
]
Id = Annotated[
    str, Meta(min_length=1, description='Its id; live ones are in session["resources"].')
]
