"""What a field of a release may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=0, le=10**15)]
Rate = Annotated[float, Field(ge=0, le=1)]
_LINE = r"\x00-\x1f\x7f-\x9f"
_UNSEEN = r"\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
Name = Annotated[
    str, Field(max_length=200, pattern=rf"^[^{_LINE}]*[^{_LINE}{_UNSEEN}][^{_LINE}]*$")
]
"""One line of text with something to see: a name ends up in terminals and reports."""
Note = Annotated[str, Field(max_length=2_000, pattern=rf"^[^{_LINE}]*$")]
Epsilon = Annotated[float, Field(gt=0)]
Cost = Annotated[float, Field(ge=-1e15, le=1e15)]  # can be squared and squared again
CostError = Annotated[float, Field(ge=0, le=1e15)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
