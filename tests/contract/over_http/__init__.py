"""The contract of the client through the HTTP API: an adapter, and the tests that it leaves out."""
