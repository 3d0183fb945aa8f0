#!/usr/bin/env python3
"""A few rows of each claim, as a table whose diff shows the effect of a change: golden_claims.py CATALOGUE.json"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import json
import sys

# Maximum rows of each claim, spread over all of its rows.
ROWS = 5


def some(rows):
    step = max(1, -(-len(rows) // ROWS))
    return rows[::step]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    for claim in document["experiments"]:
        rows = [row for row in claim["expect"] if row["measured"] is not None]
        print(f'{claim["id"]}: {claim["title"]}')
        for row in some(rows):
            print(f'  {row["measured"]:>12.5g} {row["unit"] or "":<8} {row["verdict"]:<12} {row["bounds"]:<10} {row["what"]}')


if __name__ == "__main__":
    main()
