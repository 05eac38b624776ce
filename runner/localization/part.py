"""What every part of a localization's document is: a frozen value that later versions may add to."""

from pydantic import BaseModel, ConfigDict


class DocumentPart(BaseModel):
    """A part of `divergence.json`. Keys that this version does not know are passed over: documents of later versions
    that only add to it stay readable, and what an earlier version did not write has a default."""

    model_config = ConfigDict(frozen=True, extra="ignore")
