#!/bin/bash
# A sweep as a job array of Slurm: each task runs its shard, and the last one to finish merges the tables. All tasks need the same OUT, on
# a file system that they share. A task that was interrupted resumes when it is submitted again, with the number of all shards:
#   sbatch --array=1-100 contrib/slurm-sweep.sh sweep.toml /shared/sweep [MORE FLAGS OF bbrlab sweep]
#   SHARDS=100 sbatch --array=3,7 contrib/slurm-sweep.sh sweep.toml /shared/sweep
# SPDX-License-Identifier: Apache-2.0 OR MIT
#SBATCH --job-name=bbrlab-sweep
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=04:00:00
set -euo pipefail
file=$1 out=$2
shift 2
exec "${BBRLAB:-bbrlab}" sweep "$file" --out "$out" --shard "$SLURM_ARRAY_TASK_ID/${SHARDS:-${SLURM_ARRAY_TASK_COUNT:?start it as an array}}" "$@"
