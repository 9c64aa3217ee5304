# Sourced by test.sh: sets `pytest_arguments` from its command line. `--soak doctor` selects the fault table by its marker.
pytest_arguments=()
last=
for word in "$@"; do
  if [[ $word == doctor && $last == --soak ]]; then
    pytest_arguments+=(-m doctor)
  else
    pytest_arguments+=("$word")
  fi
  last=$word
done
