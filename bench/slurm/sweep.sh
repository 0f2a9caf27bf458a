#!/bin/sh
# SPDX-License-Identifier: MIT
#SBATCH --job-name=lazyprune
#SBATCH --requeue
# One task of a Slurm array: answers a part of the samples of `lazyprune sweep`, `eval` or `fidelity`.
#   sbatch --array=1-16 --cpus-per-task=4 --mem=8G bench/slurm/sweep.sh DIR sweep -m MODEL -d TASK.jsonl ...
#   lazyprune merge DIR/parts/* --out DIR         # when all tasks have ended; it says which parts lack samples
# The number of parts is the last index of the array. A task that was requeued, or is started again, goes on after the last answer in its folder,
# DIR/parts/K-of-N. To start some tasks again, say how many parts there are: PARTS=16 sbatch --array=3,7 ... If the number of parts changes, the
# answers in the old folders still count. LAZYPRUNE names the program, if it is not on the PATH.
set -eu
[ $# -ge 2 ] || { echo "usage: sbatch --array=1-N bench/slurm/sweep.sh DIR COMMAND FLAG..." >&2; exit 2; }
[ -n "${SLURM_ARRAY_TASK_ID-}" ] || { echo "sweep.sh: expected a task of an array (sbatch --array=1-N), found none" >&2; exit 2; }
parts=$1/parts
of=${PARTS:-$SLURM_ARRAY_TASK_MAX}
task=$SLURM_ARRAY_TASK_ID
shift
for record in "$parts"/*-of-*/run.json; do
  case $record in
    *-of-"$of"/run.json) ;;
    *) [ ! -e "$record" ] || set -- "$@" --finished "${record%/run.json}" ;;
  esac
done
exec "${LAZYPRUNE:-lazyprune}" "$@" -t "${SLURM_CPUS_PER_TASK:-1}" --resume --part "$task/$of" --out "$parts/$task-of-$of"
