"""Handing matches on: as documents for feed readers."""
