"""Parquet files whose texts stay dictionaries, and how large such texts become when each row has its own copy.

In a file, a row that repeats a text costs a bit or less, and an item of a list the same. Code that unpacks a file asks
here first, so that its size in memory is known before it is taken.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ITEM_BYTES: Final = 64
"""What an item of a list or a map costs beside its text."""


def open_parquet(source: str | pa.NativeFile) -> pq.ParquetFile:
    """A Parquet file whose texts are read as dictionaries, those in lists, maps and structs too.

    Raises:
        pa.ArrowException: It is no whole Parquet file.
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
    """Bytes of all texts of a column, each counted in every row that has it, and of the items of lists."""
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
