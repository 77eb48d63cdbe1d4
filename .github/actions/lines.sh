# Shared by the actions' steps; read with `source`. It sets up the step and defines functions.
# shellcheck shell=bash

# A step runs in the checkout of a pull request, whose files are data. Python and git must take no code and no settings
# from there: no module of the current directory, no repository that was committed into a folder, no hook.
export PYTHONSAFEPATH=1
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT

# Sets one setting of git for every git of this step. It lives in the environment; nothing is written to the disk.
git_setting() {
  local number=${GIT_CONFIG_COUNT:-0}
  export GIT_CONFIG_COUNT=$((number + 1)) "GIT_CONFIG_KEY_${number}=$1" "GIT_CONFIG_VALUE_${number}=$2"
}

git_setting safe.bareRepository explicit
git_setting core.hooksPath /dev/null
git_setting core.fsmonitor false

# Lets git read and write this repository's records with the token in RECORDS_TOKEN, for this step alone, so that the
# checkout need not keep credentials. The first setting takes away those that a checkout has kept: two are an error.
git_token() {
  local key="http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader" basic
  if [[ -z ${RECORDS_TOKEN:-} ]]; then return 0; fi
  basic=$(printf 'x-access-token:%s' "${RECORDS_TOKEN}" | base64 | tr -d '\n')
  unset RECORDS_TOKEN
  echo "::add-mask::${basic}"
  git_setting "${key}" ""
  git_setting "${key}" "AUTHORIZATION: basic ${basic}"
}

# Sets one output of the step, between delimiters that cannot be guessed.
output() {
  local name=$1 value=$2 mark
  mark="kquota-$(secret_word)"
  printf '%s<<%s\n%s\n%s\n' "${name}" "${mark}" "${value}" "${mark}" >>"${GITHUB_OUTPUT}"
}

# Sixteen random bytes as text.
secret_word() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Runs a command whose words may hold foreign names: while it runs, the runner takes no line for a command.
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

# What went wrong, as a document that `kquota post` checks and shows: command, exit code, standard error (file $3).
failure() (
  cd "${RUNNER_TEMP}" || exit
  python3 -I - "$1" "$2" "$3" <<'PY'
import json, sys

command, code, path = sys.argv[1:]
with open(path, encoding="utf-8", errors="replace") as file:
    lines = [line.rstrip("\n")[:2000] for line in file][:200]
print(json.dumps({"kind": "kquota-failure", "format": 1, "command": command, "exitCode": int(code), "messages": lines}))
PY
)
