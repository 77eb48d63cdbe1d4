#!/usr/bin/env bash
# Ends expired overrides; called by action.yml, which hands everything over by environment.
set -euo pipefail
# shellcheck source=.github/actions/lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lines.sh"
git_token

words=(override end --expired --yes --project "${PROJECT}")
if [[ -n ${CLUSTER} ]]; then words+=(--cluster "${CLUSTER}"); fi
folder=$(mktemp -d "${RUNNER_TEMP}/kquota-ends.XXXXXX")
told "${folder}/out" "${folder}/err" kquota "${words[@]}"
