"""Delivery of matches: documents for feed readers, and webhooks."""
