#!/usr/bin/env bash
# Plans into a file, with the configuration of the base; called by action.yml, which hands everything over by environment.
set -euo pipefail
# shellcheck source=.github/actions/lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lines.sh"
git_token

folder=$(mktemp -d "${RUNNER_TEMP}/kquota-plan.XXXXXX")
words=(plan --project "${PROJECT}" --out "${folder}/plan.json" --page "${folder}/plan.html" --detailed-exitcode)
if [[ -n ${CLUSTER} ]]; then words+=(--cluster "${CLUSTER}"); fi
if [[ -n ${CONFIG_FROM} ]]; then
  git cat-file -e "${CONFIG_FROM}^{commit}" 2>/dev/null || {
    echo "the base ${CONFIG_FROM} is not in this clone; give actions/checkout fetch-depth: 0" >"${folder}/err"
    echo "::error::$(cat "${folder}/err")"
    failure plan 1 "${folder}/err" >"${folder}/plan.json"
    output exit-code 1
    output plan "${folder}/plan.json"
    exit 0
  }
  words+=(--config-from "${CONFIG_FROM}")
  git cat-file -e "${CONFIG_FROM}:./${PROJECT}" 2>/dev/null || {
    # The pull request that introduces the project file: with --offline kquota contacts nothing that this file names.
    echo "::notice::the base has no ${PROJECT}, so no configuration is trusted yet and no cluster is asked"
    OFFLINE=true
  }
fi
if [[ ${OFFLINE} == true ]]; then
  words+=(--offline)
  if [[ -n ${SNAPSHOT} ]]; then words+=(--snapshot "${SNAPSHOT}"); fi
fi
case "${EVIDENCE:-none}" in
  auto) ;;
  none) words+=(--no-evidence) ;;
  *) words+=("--evidence=${EVIDENCE}") ;;
esac
if [[ ${REQUIRE_EVIDENCE:-false} == true ]]; then words+=(--require-evidence); fi

code=0
told "${folder}/out" "${folder}/err" kquota "${words[@]}" || code=$?
if [[ ! -s ${folder}/plan.json ]]; then
  failure plan "${code}" "${folder}/err" >"${folder}/plan.json"
fi
output exit-code "${code}"
output plan "${folder}/plan.json"
if [[ -s ${folder}/plan.html ]]; then output page "${folder}/plan.html"; fi
