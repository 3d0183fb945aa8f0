// Samples of one run in the order of time, in one array that grows.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { Head, sampleLength } from './frame';

export class Samples {
  readonly width: number;
  private data: Float64Array;
  count = 0;

  constructor(readonly flows: number) {
    this.width = sampleLength(flows);
    this.data = new Float64Array(this.width * 512);
  }

  append(rows: Float64Array): void {
    const needed = this.count * this.width + rows.length;
    if (needed > this.data.length) {
      const larger = new Float64Array(Math.max(needed, this.data.length * 2));
      larger.set(this.data.subarray(0, this.count * this.width));
      this.data = larger;
    }
    this.data.set(rows, this.count * this.width);
    this.count += rows.length / this.width;
  }

  /** Forgets what is later than a time, because the path has changed there. */
  cut(t_ns: number): void {
    this.count = this.after(t_ns);
  }

  time(row: number): number {
    return this.data[row * this.width + Head.Now];
  }

  head(row: number, field: Head): number {
    return this.data[row * this.width + field];
  }

  flow(row: number, flow: number, field: number): number {
    return this.data[row * this.width + 11 + flow * 28 + field];
  }

  /** Number of samples up to and including a time. */
  after(t_ns: number): number {
    let [from, to] = [0, this.count];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.time(middle) <= t_ns) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
