// The page's end of the worker: a promise for each question.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Ask } from './protocol';

export class Engine {
  private readonly worker: Worker;
  private readonly open = new Map<number, { resolve: (value: any) => void; reject: (error: Error) => void }>();
  private next = 0;

  /** Starts the worker, whose files are in `place`. */
  constructor(place = '') {
    this.worker = new Worker(`${place}worker.js`);
    this.worker.onmessage = ({ data }) => {
      const waiting = this.open.get(data.id);
      this.open.delete(data.id);
      if (data.error === undefined) waiting?.resolve(data.value);
      else waiting?.reject(new Error(data.error));
    };
    this.worker.onerror = (event) => {
      event.preventDefault();
      for (const { reject } of this.open.values()) reject(new Error('the simulator stopped; reload the page'));
      this.open.clear();
    };
  }

  ask<T>(ask: Ask): Promise<T> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.open.set(id, { resolve, reject });
      this.worker.postMessage({ id, ask });
    });
  }
}
