# Shared by the actions' steps; read with `source`. Nothing here runs by itself.
# shellcheck shell=bash

# Sets one output of the step, between delimiters that nobody can guess.
output() {
  local name=$1 value=$2 mark
  mark="kquota-$(secret_word)"
  printf '%s<<%s\n%s\n%s\n' "${name}" "${mark}" "${value}" "${mark}" >>"${GITHUB_OUTPUT}"
}

# Sixteen random bytes as text.
secret_word() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Runs a command whose words may hold foreign names: while it speaks, the runner takes no line for a command.
# Standard output and standard error go to the log and to the files $1 and $2. Gives the command's exit code.
told() {
  local out=$1 err=$2 word code=0
  shift 2
  word=$(secret_word)
  echo "::stop-commands::${word}"
  "$@" >"${out}" 2>"${err}" || code=$?
  cat "${out}"
  cat "${err}" >&2
  printf '\n::%s::\n' "${word}"
  return "${code}"
}

# What went wrong, as a document that `kquota post` checks and shows: command, exit code, standard error.
failure() {
  python3 - "$1" "$2" "$3" <<'PY'
import json, sys

command, code, path = sys.argv[1:]
with open(path, encoding="utf-8", errors="replace") as file:
    lines = [line.rstrip("\n")[:2000] for line in file][:200]
print(json.dumps({"kind": "kquota-failure", "format": 1, "command": command, "exitCode": int(code), "messages": lines}))
PY
}
