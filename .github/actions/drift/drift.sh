#!/usr/bin/env bash
# Looks for drift and keeps the report; called by action.yml, which hands everything over by environment.
set -euo pipefail
# shellcheck source=.github/actions/lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lines.sh"
git_token

folder=$(mktemp -d "${RUNNER_TEMP}/kquota-drift.XXXXXX")
words=(drift --project "${PROJECT}" --format json --detailed-exitcode)
if [[ -n ${CLUSTER} ]]; then words+=(--cluster "${CLUSTER}"); fi
if [[ ${READ_ONLY} == true ]]; then words+=(--read-only); fi
code=0
told "${folder}/drift.json" "${folder}/err" kquota "${words[@]}" || code=$?
output exit-code "${code}"
if [[ ${code} == 0 || ${code} == 2 ]]; then output report "${folder}/drift.json"; fi
