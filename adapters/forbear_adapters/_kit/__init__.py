"""What the adapters share: optional imports, the mapping of calls, detection of inner retries. No policy lives here."""
