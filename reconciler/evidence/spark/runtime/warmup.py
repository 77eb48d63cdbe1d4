"""A small job that loads the classes that real jobs use, so that the archive contains them. Run only by ``class_archive``."""

import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as fn


def main(scratch: str) -> None:
    """Write and read files, join, group, sort, and use windows."""
    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(2000).select(
        "id",
        fn.concat(fn.lit("user-"), fn.col("id") % 7).alias("user"),
        fn.date_from_unix_date((fn.col("id") % 3).cast("int")).alias("day"),
        fn.col("id").cast("double").alias("value"),
    )
    rows.write.partitionBy("day").mode("overwrite").parquet(f"{scratch}/rows")
    read = spark.read.schema(rows.schema).parquet(f"{scratch}/rows")
    names = spark.createDataFrame([("user-1", 5), ("user-2", 6)], "user string, q bigint")
    over = Window.partitionBy("user").orderBy("id")
    read.withColumn("sum", fn.sum("id").over(over)).withColumn(
        "last", fn.lag("id").over(over)
    ).join(names, "user", "left").where("value > 3").groupBy("user", "day").agg(
        fn.sum("sum"), fn.max(fn.struct("value", "last")), fn.count("*"), fn.countDistinct("q")
    ).orderBy("user").collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
