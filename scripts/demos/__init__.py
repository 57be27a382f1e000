"""Programs that show a queue, a pipeline and the dashboard at work."""
