"""The API, the feeds, the live streams and the page: the only room that imports FastAPI."""
