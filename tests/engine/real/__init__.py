"""Tests against a real SGLang server on this machine's CPU: `make test-engine`."""
