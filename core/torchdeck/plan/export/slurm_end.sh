step=$!
while :; do
  code=0
  wait "$step" || code=$?
  kill -0 "$step" 2>/dev/null || break # a signal only interrupts the wait
done
kill "$reporter" 2>/dev/null || :
wait "$reporter" 2>/dev/null || :
report

failed=
for file in "$FOLDER"/ranks/*/exit; do
  [ -e "$file" ] || continue
  rank=${file%/exit} rank=${rank##*/}
  read -r ended <"$file" || ended=null
  once rank_exited "\"attempt\": $ATTEMPT, \"rank\": $rank" "\"code\": $ended"
  case $ended in
  0 | 143) ;;
  *) [ -n "$failed" ] && [ ! "$file" -ot "$failed" ] || failed=$file ;;
  esac
done

# attempt_ended OUTCOME
attempt_ended() { event "$JOURNAL" attempt_ended "\"attempt\": $ATTEMPT, \"outcome\": \"$1\""; }
succeeded() {
  attempt_ended succeeded
  finished SUCCEEDED ""
  say "succeeded"
  exit 0
}

# a script may end with any code after the SIGTERM of a stop
if [ ! -e "$STOP" ]; then
  [ "$code" != 0 ] || succeeded
elif [ "$KIND" != recipe ]; then
  failed= code=0
elif [ -z "$failed" ]; then
  code=0
fi
if [ "$code" != 0 ]; then
  attempt_ended failed
  finished FAILED ""
  say "failed with exit code $code${failed:+; the end of ${failed%/exit}/stderr.log:}"
  [ -z "$failed" ] || tail -n 20 -- "${failed%/exit}/stderr.log" >&2 || :
  exit "$code"
fi
# the stop came with the last step
! is_new "$CHECKPOINTS/final/manifest.json" || succeeded

is_preempted() { scontrol --oneliner show job "$SLURM_JOB_ID" | grep -q 'JobState=RUNNING .*PreemptTime=[0-9]'; }
has_saved() {
  for manifest in "$CHECKPOINTS"/*/manifest.json; do
    ! is_new "$manifest" || return 0
  done
  return 1
}
attempt_ended stopped
if [ "$asked" = "the time limit is near" ] || is_preempted; then
  again=yes
  why="the time limit is reached"
else
  again=
  why="stop requested"
fi
if [ -n "$again" ] && [ "$REQUEUE" = auto ] && ! has_saved; then
  say "not requeued: this attempt has saved no checkpoint, so the next one would get no further"
elif [ -n "$again" ] && [ "$REQUEUE" != never ] && scontrol requeue "$SLURM_JOB_ID"; then
  event "$JOURNAL" restarting '"reason": "restart"'
  say "requeued"
  exit 0
fi
finished CANCELLED "$why"
say "stopped before the end: $why"
exit 75
