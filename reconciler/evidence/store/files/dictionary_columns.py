"""Opens Parquet files with strings kept as dictionaries, and computes the size of the strings when decoded.

In a file, a row that repeats a string, or an item of a list, costs a bit or less. Callers compute the size in memory
here before they decode a file.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ITEM_BYTES: Final = 64
"""Size of an item of a list or map in addition to its string."""


def open_parquet(source: str | pa.NativeFile) -> pq.ParquetFile:
    """Open a Parquet file with all strings read as dictionaries, also those in lists, maps and structs.

    Raises:
        pa.ArrowException: It is not a complete Parquet file.
        OSError: It cannot be read.
    """
    metadata = pq.read_metadata(source)
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    texts = [
        leaf.path
        for leaf in leaves
        if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL"
    ]
    if not isinstance(source, str):
        source.seek(0)
    return pq.ParquetFile(
        source, metadata=metadata, read_dictionary=texts, page_checksum_verification=True
    )


def unpacked_size(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of all strings of a column, counted once per row, and of the items of lists."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return sum(map(unpacked_size, column.chunks))
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
    if pa.types.is_map(kind):
        start, end = int(column.offsets[0].as_py()), int(column.offsets[-1].as_py())
        entries = (column.keys.slice(start, end - start), column.items.slice(start, end - start))
        return ITEM_BYTES * (end - start) + sum(unpacked_size(texts) for texts in entries)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = column.flatten()
        return ITEM_BYTES * len(items) + unpacked_size(items)
    if pa.types.is_struct(kind):
        return sum(unpacked_size(field) for field in column.flatten())
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return int(pc.sum(pc.binary_length(column).cast(pa.int64())).as_py() or 0) if is_text else 0
