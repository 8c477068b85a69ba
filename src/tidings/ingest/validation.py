"""Which posts of a batch can be matched at all. The others match nothing; `spark.posts.rejected` tells why.

Invalid UTF-8 is not looked for here: the tokeniser meets it anyway and gives such a row no terms.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.config import MAX_TEXT_BYTES
from tidings.schemas import CORRUPT


def unfit(batch: pa.RecordBatch, positions: NDArray[np.float64]) -> NDArray[np.intp]:
    """The places of posts with no id, no text, too much text, a position that is not on the globe; and of no posts."""
    bad = np.abs(positions[:, 0]) > 180
    bad |= np.abs(positions[:, 1]) > 90
    text = batch.column("text")
    bad |= pc.fill_null(pc.greater(pc.binary_length(text), MAX_TEXT_BYTES), True).to_numpy(zero_copy_only=False)
    if batch.column("id").null_count:
        bad |= pc.is_null(batch.column("id")).to_numpy(zero_copy_only=False)
    if CORRUPT in batch.schema.names:
        bad |= batch.column(CORRUPT).is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(bad)
