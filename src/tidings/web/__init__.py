"""The API, the feeds, the live streams and the page. Only this package imports FastAPI."""
