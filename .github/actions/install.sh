#!/usr/bin/env bash
# Installs kquota from the repository that holds this file and puts it on the PATH of the following steps.
#
# Every download is compared with the hashes in .ci/locks; the project itself is built from this checkout with locked
# build tools. Nothing is read from the current directory, and no variable of the caller that could be a secret reaches pip
# or a build: a pull request's files are data (docs/adr/isolated-actions.md).
#
#   VERSION=installed    the job has put kquota on the PATH itself; nothing is done
#   EXTRAS               extras of the package, separated by commas; "http" if unset
#   KQUOTA_HOME          folder to install into; ${RUNNER_TEMP}/kquota if unset
#
# `${KQUOTA_HOME}/bin` holds the two commands and no other program.
set -euo pipefail

if [[ ${VERSION:-} == installed ]]; then
  command -v kquota >/dev/null || { echo "::error::version: installed, but there is no kquota on the PATH"; exit 1; }
  exit 0
fi
if [[ -n ${VERSION:-} ]]; then
  echo "::error::the input version should be \"installed\" or nothing; for another release pin this action to its commit"
  exit 1
fi
extras=${EXTRAS:-http}
if [[ ! ${extras} =~ ^[a-z]+(,[a-z]+)*$ ]]; then
  echo "::error::EXTRAS should be names of extras, separated by commas, such as http,usage"
  exit 1
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
locks=()
for extra in base ${extras//,/ }; do
  if [[ ! -f ${source}/.ci/locks/${extra}.txt ]]; then
    echo "::error::there is no extra ${extra}; .ci/locks has one file for each"
    exit 1
  fi
  locks+=(--requirement "${source}/.ci/locks/${extra}.txt")
done
home=${KQUOTA_HOME:-${RUNNER_TEMP:?names a folder outside the checkout; or set KQUOTA_HOME}/kquota}
mkdir -p "${home}"
cd "${home}"
home=${PWD}

# Runs a program with the variables that an installation needs, and no others.
alone() {
  local name kept=()
  for name in PATH HOME LANG TMPDIR LD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE \
    http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL \
    PIP_FIND_LINKS PIP_CERT PIP_CONFIG_FILE PIP_DEFAULT_TIMEOUT; do
    if [[ -n ${!name:-} ]]; then kept+=("${name}=${!name}"); fi
  done
  env -i "${kept[@]}" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONSAFEPATH=1 "$@"
}

python=$(command -v python3 || command -v python) || { echo "::error::there is no Python on the PATH"; exit 1; }
alone "${python}" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "::error::kquota needs Python 3.11 or newer; put actions/setup-python before this step"
  exit 1
}
# A later step of the same job finds what an earlier one installed; a folder that the caller names is always made anew.
for extra in base ${extras//,/ }; do cat "${source}/.ci/locks/${extra}.txt"; done >requested.txt
printf '# %s\n' "${source}" >>requested.txt
if [[ -n ${KQUOTA_HOME:-} ]] || ! cmp -s requested.txt installed.txt; then
  rm -rf build wheels environment bin
  alone "${python}" -I -m venv build
  pip=(alone build/bin/python -I -m pip)
  "${pip[@]}" install --quiet --require-hashes --only-binary :all: --requirement "${source}/.ci/locks/build.txt"
  "${pip[@]}" wheel --quiet --require-hashes --no-build-isolation --wheel-dir wheels "${locks[@]}"
  "${pip[@]}" wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir wheels "${source}"
  alone "${python}" -I -m venv --without-pip environment
  "${pip[@]}" --python environment/bin/python install --quiet --no-index --no-deps wheels/*.whl
  rm -rf build wheels
  mkdir bin
  # -I: neither the current directory nor a variable can add modules.
  for command in kquota kafka-client-quotas; do
    printf '#!/bin/sh\nexec "%s" -I "%s" "$@"\n' "${home}/environment/bin/python" "${home}/environment/bin/${command}" >"bin/${command}"
    chmod +x "bin/${command}"
  done
  mv requested.txt installed.txt
fi
if [[ -n ${GITHUB_PATH:-} ]]; then echo "${home}/bin" >>"${GITHUB_PATH}"; fi
