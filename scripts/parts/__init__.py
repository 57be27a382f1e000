"""The parts of ``scripts/test``, and the lanes in which they run."""
