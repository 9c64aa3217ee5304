#!/bin/sh
# A rank's parent: owns the rank's log files and writes its exit code, which torchrun's own files would not survive.
# torchrun starts it in place of the rank; the arguments are the rank's command line.
# Environment: TORCHDECK_RUN_DIR, TORCHDECK_ATTEMPT, TORCHDECK_NODE (the plan's), RANK (torchrun's; unset for one plain process).
umask 077
folder="$TORCHDECK_RUN_DIR/attempts/$TORCHDECK_ATTEMPT/ranks/${RANK:-0}"
[ -d "$folder" ] || mkdir -p "$folder" || exit 125
exec >>"$folder/stdout.log" 2>>"$folder/stderr.log" || exit 125
echo "$$" >"$folder/holder.pid"
# entry points wrapped in @record leave their traceback here
if [ -n "${RANK:-}" ]; then
  TORCHELASTIC_ERROR_FILE="$folder/error.json"
  export TORCHELASTIC_ERROR_FILE
fi
# torchrun signals the whole group: the rank decides what a signal means, its parent only stays to see the end.
# A trap, not an ignored signal, because ignoring would be inherited by the rank.
trap : TERM INT HUP QUIT
# Only the run directory is private: what the program writes elsewhere gets the umask of the shell that launched.
mask=${TORCHDECK_UMASK:-077}
unset TORCHDECK_UMASK
# A signal that comes while the shell forks is lost: the new shell drops it when it resets the traps. The agent writes
# this file before it has ranks signalled, so a rank that did not get the signal is not started.
ending="$TORCHDECK_RUN_DIR/attempts/$TORCHDECK_ATTEMPT/nodes/${TORCHDECK_NODE:-}/ending"
# The shell's own "Terminated" is no output of the rank; in dash a redirection of "$@" alone would take it along.
{ (if [ -e "$ending" ]; then exit 143; fi; umask "$mask"; exec "$@" 2>&3 3>&-); code=$?; } 3>&2 2>/dev/null
echo "$code" >"$folder/exit.tmp" && mv -f "$folder/exit.tmp" "$folder/exit"
exit "$code"
