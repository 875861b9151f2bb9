"""The shape of a protected record, for reading records that others wrote. It is never an answer to an agent.

What forbear itself records is written by `forbear.audit`; this model reads the seeds' form and rejects everything else.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forbear.errors import ContractError

_Name = Annotated[str, Field(min_length=1, max_length=256)]


class ProtectedRecord(BaseModel):
    """One protected diagnostic record (design section 11)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    request_id: _Name
    event: _Name
    result_code: _Name
    credential_record: _Name | None = None
    destination: _Name | None = None
    method: _Name | None = None
    path_template: _Name | None = None
    bytes_sent: bool | None = None
    response_received: bool | None = None
    exception_class: _Name | None = None


def read_record(value: object) -> ProtectedRecord:
    """Return a protected record.

    Raises:
        ContractError: it is not one; the message names the field and the rule, never a value.
    """
    try:
        return ProtectedRecord.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        field = "/".join(str(part) for part in first["loc"])[:64]
        raise ContractError(f"protected record: field {field!r} {first['type']}") from None
