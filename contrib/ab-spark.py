#!/usr/bin/env python3
"""Gains of an A/B test on Spark: ab-spark.py [--master MASTER] DIR…

Reads the tables that `bbrlab ab` left in the directories of one or more hosts, local or on any file system that Spark knows, and
computes the gains of all connections as `bbrlab ab report` does: a connection counts by its newest record, small ones (below 3 MB)
by completion time and large ones by throughput; medians are compared within each host and split, and combined with overlap weights.
For intervals, use `bbrlab ab report`. Needs pyspark 4 and Java 17.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import argparse
import collections
import json
import math

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

LARGE = 3_000_000
# Values of each arm in a split that counts, if any split has as many.
LEAST = 10


def values(spark, path):
    """The compared connections of a host, each with its value."""
    described = json.loads("\n".join(row.value for row in spark.read.text(f"{path}/experiment.json").collect()))
    rows = spark.read.parquet(f"{path}/connections-*.parquet")
    newest = Window.partitionBy("begun_unix_ns", "id", "epoch").orderBy(F.desc("nth"))
    rows = rows.withColumn("place", F.row_number().over(newest)).filter("place = 1")
    rows = rows.filter("is_refused = 0 AND is_overridden = 0 AND data_segs_out > 0 AND bytes_acked > 0")
    # The kernel counts busy time in ticks; the place in the tick is drawn from the connection's number, modulo 2⁶⁴.
    drawn = F.expr("shiftrightunsigned(id * -7046029254386353131L, 11)").cast("double") / F.lit(2.0**53)
    busy = F.col("busy_us") / 1e6 + (drawn - 0.5) * described["tick_ns"] / 1e9
    busy = F.greatest(busy, F.col("min_rtt_us") / 1e6, F.lit(1e-6))
    large = F.col("bytes_acked") >= LARGE
    rows = rows.filter(large | (F.col("is_open") == 0))
    value = F.when(large, F.col("bytes_acked") * 8e-6 / busy).otherwise(busy * 1e3)
    host = described.get("host") or path
    return rows.select(F.lit(host).alias("host"), "epoch", "arm", large.alias("is_large"), value.alias("value")), described["arms"]


def weights(counts):
    """Overlap weights of splits with these numbers of values of both arms."""
    for least in (LEAST, 1):
        each = [0 if min(own, control) < least else own * control / (own + control) for own, control in counts]
        if any(each):
            return [one / sum(each) for one in each]
    return [0.0] * len(counts)


def gain(splits, is_large):
    """Relative gain of an arm: splits are pairs of (count, median), of the arm and of the control."""
    share = weights([(own[0], control[0]) for own, control in splits])
    log = sum(weight * math.log(own[1] / control[1]) for weight, (own, control) in zip(share, splits, strict=True) if weight)
    return math.exp(log if is_large else -log) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dirs", nargs="+", metavar="DIR")
    parser.add_argument("--master", default="local[*]")
    args = parser.parse_args()
    # Integers wrap, as in the hash.
    spark = SparkSession.builder.master(args.master).config("spark.sql.ansi.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    parts = [values(spark, path) for path in args.dirs]
    everything = parts[0][0]
    for part, _ in parts[1:]:
        everything = everything.unionByName(part)
    found = everything.groupBy("host", "epoch", "arm", "is_large").agg(F.count("value"), F.percentile("value", 0.5)).collect()
    arms = [arm["label"] for arm in parts[0][1]]
    splits = collections.defaultdict(dict)
    for host, epoch, arm, is_large, count, median in found:
        splits[is_large, host, epoch][arm] = (count, median)
    gains = []
    for is_large in (False, True):
        for arm in range(1, len(arms)):
            both = [own for key, own in sorted(splits.items()) if key[0] == is_large and arm in own and 0 in own]
            if both:
                one = gain([(own[arm], own[0]) for own in both], is_large)
                gains.append({"arm": arms[arm], "is_large": is_large, "gain": one})
    print(json.dumps(gains))
    spark.stop()


if __name__ == "__main__":
    main()
