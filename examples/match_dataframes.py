"""Match posts with subscriptions and join the matches with the posts."""

from __future__ import annotations

from pyspark.sql import functions as F

import tidings

POSTS = [
    (1, "Storm warning for the coast: heavy rain expected tonight", 51.9, 4.5),
    (2, "Police close London Bridge after an accident", 51.5, -0.09),
    (3, "A quiet morning at the harbour", 53.5, 10.0),
    (4, "", None, None),
]
SUBSCRIPTIONS = [
    ("weather", 'storm OR "heavy rain"'),
    ("london-police", "police within:-0.6,51.2,0.4,51.8"),
    ("quiet", "harbour -police"),
]


def main() -> list[tuple[str, str]]:
    """Print every match with its text; return (subscription, text) pairs."""
    spark = tidings.session()
    posts = spark.createDataFrame(POSTS, "id long, text string, lat double, lon double")
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS, "id string, query string")

    matches = tidings.match(posts, subscriptions)
    alerts = matches.join(posts, matches.post_id == posts.id).select("subscription_id", "text").orderBy(F.col("id"))
    alerts.show(truncate=False)
    tidings.rejected(posts).show(truncate=False)
    return [(row.subscription_id, row.text) for row in alerts.collect()]


if __name__ == "__main__":
    main()
