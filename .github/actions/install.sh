#!/usr/bin/env bash
# Puts kquota on the PATH of the following steps: from PyPI (VERSION=1.2.3), from the checkout of the actions
# themselves (VERSION=""), or not at all (VERSION=installed: the job did it). Called by the three actions. EXTRAS are
# those of the package, "http" if unset.
set -euo pipefail

if [[ ${VERSION} == installed ]]; then
  command -v kquota >/dev/null || { echo "::error::version: installed, but there is no kquota on the PATH"; exit 1; }
  exit 0
fi
if [[ -n ${VERSION} && ! ${VERSION} =~ ^[0-9][0-9A-Za-z.+!-]*$ ]]; then
  echo "::error::the input version should be a version such as 1.2.3, \"installed\", or nothing"
  exit 1
fi
python=$(command -v python3 || command -v python)
"${python}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "::error::kquota needs Python 3.11 or newer; put actions/setup-python before this step"
  exit 1
}
home="${RUNNER_TEMP}/kquota-environment"
[[ -d ${home} ]] || "${python}" -m venv "${home}"
if [[ -n ${VERSION} ]]; then
  what="kafka-quota-reconciler[${EXTRAS:-http}]==${VERSION}"
else
  # The repository that holds this file; what a pull request changes in its own checkout is not it.
  source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  what="${source}[${EXTRAS:-http}]"
fi
"${home}/bin/pip" install --quiet --disable-pip-version-check "${what}"
echo "${home}/bin" >>"${GITHUB_PATH}"
