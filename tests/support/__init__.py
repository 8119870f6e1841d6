"""Helpers of all tests: an upstream that plays a script, the gateway in this process, a client that sees every write, a virtual clock."""
