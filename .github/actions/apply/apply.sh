#!/usr/bin/env bash
# Applies with the configuration of this checkout; called by action.yml, which hands everything over by environment.
set -euo pipefail
# shellcheck source=.github/actions/lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lines.sh"
git_token

folder=$(mktemp -d "${RUNNER_TEMP}/kquota-apply.XXXXXX")
words=(apply)
if [[ -n ${PLAN} ]]; then words+=("${PLAN}"); fi
words+=(--yes --project "${PROJECT}" --out "${folder}/outcome.json" --max-age "${MAX_AGE}")
if [[ -n ${CLUSTER} ]]; then words+=(--cluster "${CLUSTER}"); fi
if [[ -n ${DIGEST} ]]; then words+=(--expect-digest "${DIGEST}"); fi

code=0
told "${folder}/out" "${folder}/err" kquota "${words[@]}" || code=$?
if [[ ! -s ${folder}/outcome.json && ${code} != 0 ]]; then
  failure apply "${code}" "${folder}/err" >"${folder}/outcome.json"
fi
output exit-code "${code}"
if [[ -s ${folder}/outcome.json ]]; then output outcome "${folder}/outcome.json"; fi
