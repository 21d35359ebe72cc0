"""Base of the config file's models."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An object of the config file: unknown keys are errors, and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
