#!/usr/bin/env bash
# A job of Slurm that measures how fast a model reaches every node: tzmark bench cluster, with a rank for each task.
#
# usage: sbatch --nodes N scripts/cluster/slurm.sh DIR [OPTION...]
#   DIR: a directory that all nodes see; the options are those of tzmark bench cluster
# The result is tzmark-JOB.json in the directory of the submission. TZMARK names the command, if it is not in PATH.
#SBATCH --job-name=tzmark
#SBATCH --ntasks-per-node=1
#SBATCH --output=tzmark-%j.log
set -euo pipefail
if [ $# -lt 1 ] || [ -z "$1" ]; then
  echo "usage: sbatch --nodes N scripts/cluster/slurm.sh DIR [OPTION...]" >&2
  exit 2
fi
directory=$1
shift
mpirun "${TZMARK:-tzmark}" bench cluster --dir "$directory" --json "tzmark-$SLURM_JOB_ID.json" "$@"
