"""Run a command over OpenSSH so that "never began", "other host key" and "may have run" are told apart without any text."""

from __future__ import annotations

from forbear_adapters.ssh.bridge import arun, run
from forbear_adapters.ssh.mapping import Target

__all__ = ["Target", "arun", "run"]
