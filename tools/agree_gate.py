#!/usr/bin/env python3
"""Holds what `bbrlab agree --json` wrote to its demands; that on retransmissions, which one scenario misses
(docs/validation.md), to the value below, so that it gets no worse.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import sys

# Ours: what a Startup that ends one round trip later makes of its loss.
RETRANSMISSIONS = 1.5

demands = json.load(open(sys.argv[1], encoding="utf-8"))["demands"]
wrong = 0
for row in demands:
    limit = RETRANSMISSIONS if row["what"].startswith("retransmissions") else row["limit"]
    holds = row["measured"] <= limit
    wrong += not holds
    gate = "" if limit == row["limit"] else f", gated at {limit}"
    print(f"{'holds' if row['measured'] <= row['limit'] else 'FAILS'}  {row['measured']:.3f} <= {row['limit']}{gate}  {row['what']}")
print(f"{len(demands) - wrong} passed, {wrong} failed")
sys.exit(1 if wrong else 0)
