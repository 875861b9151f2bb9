"""The rules of a decorator: given ready, or built from policy fields. Nothing else lives here."""

from __future__ import annotations

from collections.abc import Mapping

from forbear import RecoveryPolicy
from forbear.errors import ConfigError

__all__ = ["rules_of"]


def rules_of(policy: RecoveryPolicy | None, fields: Mapping[str, object]) -> RecoveryPolicy:
    """Return the policy, or one of these fields.

    Raises:
        ConfigError: a field is wrong, or both are given.
    """
    if policy is None:
        return RecoveryPolicy(catalogue=None, clock=None, **fields)
    if fields:
        raise ConfigError("policy: must not be given together with policy fields")
    return policy
