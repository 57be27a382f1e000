"""The demo of the dashboard: a shop whose messages, workers and webhooks sometimes fail."""
