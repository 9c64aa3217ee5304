# What happens around the ranks. Journals and a heartbeat in RUN_DIR let `torchdeck runs attach` show this job.
FOLDER=$RUN_DIR/attempts/$ATTEMPT
STOP=$FOLDER/stop
JOB=$RUN_DIR/nodes/slurm
JOURNAL=$JOB/journal.jsonl
mkdir -p -- "$FOLDER/ranks" "$JOB"
cp -- "$RUN_DIR/plan.json" "$FOLDER/plan.json"
: >"$FOLDER/begun"

say() { echo "torchdeck: $*" >&2; }

# event FILE NAME [MEMBERS]: appends an event; a full disk must not end the job
event() {
  read -r uptime rest </proc/uptime
  printf '{"v": 1, "t": %s, "m": %s, "event": "%s"%s}\n' \
    "$(date +%s.%3N)" "$uptime" "$2" "${3:+, $3}" >>"$1" || :
}

# once NAME MEMBERS: the same in the job's journal, unless it is there
once() { grep -qsF "\"event\": \"$1\", $2" "$JOURNAL" || event "$JOURNAL" "$1" "$2${3:+, $3}"; }

# ask REASON: ranks save and end; those of recipes see the file, torchrun of a script gets SIGTERM on each node
asked=
ask() {
  asked=$1
  touch "$STOP" || :
  say "$1: the ranks are asked to save and end"
}
trap 'ask "the time limit is near"' USR1
trap 'asked=${asked:-"stopped by SIGTERM"}; ask "$asked"' TERM

# outside RUN_DIR, other runs may save into the same folder
OWN=
case $CHECKPOINTS in "$RUN_DIR"/*) ;; *) OWN=$RUN_ID ;; esac

# is_new MANIFEST: whether this attempt has saved that checkpoint
is_new() {
  [ "$1" -nt "$FOLDER/begun" ] || return 1
  [ -z "$OWN" ] || grep -qsF "\"run_id\": \"$OWN\"" "$1"
}

# newest [RUN_ID]: STEP FOLDER of the newest checkpoint, of that run or any, whose hashes are right; or nothing
newest() {
  [ -d "$CHECKPOINTS" ] || return 0
  python -c '
import sys
from pathlib import Path

sys.path[:] = filter(None, sys.path)
try:
    from torchdeck.contract.checkpoints.choose import choose_checkpoint
    from torchdeck.contract.checkpoints.manifest import CheckpointError
except ImportError:
    sys.exit()
try:
    chosen = choose_checkpoint(Path(sys.argv[1]), "auto", run_id=sys.argv[2] or None)
except CheckpointError as error:
    sys.exit(f"torchdeck: {error}")
if chosen.folder:
    print(chosen.step, chosen.folder)
' "$CHECKPOINTS" "${1:-}"
}

[ -e "$RUN_DIR/journal.jsonl" ] || event "$RUN_DIR/journal.jsonl" created "$CREATED"
ended=$(grep -c '"event": "finished"' "$JOURNAL" 2>/dev/null) || :
[ "${ended:-0}" = 0 ] || event "$RUN_DIR/journal.jsonl" resumed "\"finished\": $ended, \"origin\": \"slurm\""
# finished STATE WHY
finished() {
  event "$JOURNAL" finished "\"state\": \"$1\", \"why\": \"$2\", \"resumable\": false, \"attempt\": $ATTEMPT"
}
# without it, a requeued job that fails here would count as waiting in the queue
trap 'finished FAILED ""' EXIT

# a requeued job continues from what it has saved, else as the first start did
found=
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || found=$(newest "$RUN_ID") || exit 4
[ -n "$found" ] || [ "$RESUME" != auto ] || found=$(newest "$OWN") || exit 4
case $RESUME in auto | never) RESUME= ;; esac
RESUME_STEP=null
[ -z "$found" ] || RESUME_STEP=${found%% *} RESUME=${found#* }

reason=restart
[ "$ATTEMPT" != 1 ] || reason=first
event "$JOURNAL" attempt_started "\"attempt\": $ATTEMPT, \"reason\": \"$reason\", \"resume\": \"$RESUME\", \
\"resume_step\": $RESUME_STEP, \"world_size\": $WORLD_SIZE"
trap - EXIT
say "attempt $ATTEMPT in $RUN_DIR${RESUME:+, from $RESUME}; logs of the ranks: $FOLDER/ranks/RANK/"

# report: a heartbeat, and what is new
report() {
  printf '{"v": 1, "t": %s, "attempt": %s, "job": "%s", "ranks": {}}\n' \
    "$(date +%s.%3N)" "$ATTEMPT" "$SLURM_JOB_ID" >"$JOB/.heartbeat" || :
  mv -f "$JOB/.heartbeat" "$JOB/heartbeat.json" || :
  [ ! -e "$FOLDER/ranks/0/holder.pid" ] || once running "\"attempt\": $ATTEMPT"
  [ ! -e "$STOP" ] || once stopping "\"attempt\": $ATTEMPT" '"kind": "graceful", "why": "user"'
  for manifest in "$CHECKPOINTS"/*/manifest.json; do
    is_new "$manifest" || continue
    saved=${manifest%/*}
    ! grep -qsF "\"path\": \"$saved\"" "$JOURNAL" || continue
    step=$(grep -o '"step": *[0-9]*' "$manifest" | sed -n '1s/.*[: ]//p') || :
    size=$(du -sb -- "$saved" | cut -f1) || :
    event "$JOURNAL" checkpoint "\"path\": \"$saved\", \"step\": ${step:-null}, \"size\": ${size:-null}"
  done
}
report
(while sleep 5; do report; done) >/dev/null 2>&1 &
reporter=$!

