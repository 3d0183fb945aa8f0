"""Figures of docs/python.md: overhead of a run, ACKs and steps a second. Not a test; run it on a quiet machine."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import subprocess
import sys
import time

import numpy as np

import bbrlab
import bbrlab.gym

PATH = {"rate": "100mbit", "rtt": "40ms", "buffer": "1bdp", "duration": "30s", "sample": "0s"}


class Nothing(bbrlab.Algorithm):
    def __init__(self):
        self.acks, self.cwnd_packets, self.pacing_rate_bps = 0, 400.0, 95e6

    def on_ack(self, ack):
        self.acks += 1


def least(call, times=5):
    """Smallest of several times, seconds."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    return min(took)


def steps_a_second(env, actions, seconds=3.0):
    env.reset(seed=1)
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        over = env.step(actions)
        steps += len(actions) if actions.ndim > 1 else 1
        if actions.ndim == 1 and over[3]:
            env.reset()
    return steps / (time.perf_counter() - begun)


def main():
    code = "import time; t=time.perf_counter(); import bbrlab; print(time.perf_counter()-t)"
    took = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(5))
    print(f"import                             {took * 1e3:8.1f} ms")
    run_s = least(lambda: bbrlab.run(**PATH, flows=["bbr1"]))
    print(f"a run of 30 s, 100 Mbit/s, 40 ms   {run_s * 1e3:8.1f} ms")
    short = {**PATH, "duration": "1ms"}
    print(f"a run of 1 ms                      {least(lambda: bbrlab.run(**short, flows=['bbr1']), 50) * 1e3:8.2f} ms")
    made = []

    class Counted(Nothing):
        def __init__(self):
            super().__init__()
            made.append(self)

    took = least(lambda: bbrlab.run(**PATH, flows=[Counted]))
    print(f"ACKs of an algorithm in Python     {made[-1].acks / took:8.0f} a second")
    path = {"rate": "20mbit", "rtt": "20ms", "buffer": "1bdp", "flows": [], "seed": 1}
    one = bbrlab.gym.CongestionControl(lambda rng: path, step_s=0.01)
    print(f"steps of 10 ms, one environment    {steps_a_second(one, np.zeros(2, dtype=np.float32)):8.0f} a second")
    many = bbrlab.gym.CongestionControlVector(64, lambda rng: path, step_s=0.01)
    print(f"steps of 10 ms, 64 environments    {steps_a_second(many, np.zeros((64, 2), dtype=np.float32)):8.0f} a second")
    print(json.dumps({"version": bbrlab.__version__}))


if __name__ == "__main__":
    main()
