# The operator and the command line in one image: built from the wheel, run by any user, with a file system that no user writes to.
#   make image TAG=registry.example.org/kafka-quota-reconciler:0.1.0
# The image of Python has no default: .ci/python-image names the one of releases, and `make python-image` its digest.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
ARG PYTHON_IMAGE
RUN case "${PYTHON_IMAGE}" in *@sha256:*|localhost/*) ;; *) \
 echo "PYTHON_IMAGE=${PYTHON_IMAGE} has no digest: run make python-image, or give name@sha256:..." >&2; exit 1 ;; esac
ARG SOURCE=/src
ARG PREFIX=/opt/kquota
# `usage` beside them is for the job that publishes evidence (docs/recorded-use.md).
ARG EXTRAS=operator,keystores
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR ${SOURCE}
COPY pyproject.toml README.md LICENSE ./
COPY .ci/locks ./.ci/locks
COPY reconciler ./reconciler
# Every download is compared with the hashes in .ci/locks; the build tools are locked, too, and stay here.
RUN python -I -m venv build \
 && build/bin/python -I -m pip install --quiet --require-hashes --only-binary :all: --requirement .ci/locks/build.txt
RUN for extra in base $(echo "${EXTRAS}" | tr , ' '); do echo "--requirement .ci/locks/${extra}.txt"; done > requirements.txt \
 && build/bin/python -I -m pip wheel --quiet --require-hashes --no-build-isolation --wheel-dir dist --requirement requirements.txt \
 && build/bin/python -I -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir dist .
# Nothing in the image installs anything: it has no pip. What it imports is compiled, because its user may not write there.
RUN python -I -m venv --without-pip ${PREFIX} \
 && build/bin/python -I -m pip --python ${PREFIX}/bin/python install --quiet --no-index --no-deps dist/*.whl \
 && ${PREFIX}/bin/python -I -m compileall -q ${PREFIX}/lib

FROM ${PYTHON_IMAGE}
ARG PREFIX=/opt/kquota
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kafka-quota-reconciler" \
      org.opencontainers.image.description="Kafka client quotas as code: declared, previewed, applied, verified, watched" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build ${PREFIX} ${PREFIX}
ENV PATH=${PREFIX}/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
# One arena: those of further threads would take 10 MB that are never given back. Large blocks are given back at once.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072
WORKDIR /tmp
RUN kquota --version
# A number, so that runAsNonRoot can be checked; OpenShift puts another one in its place.
USER 65532:65532
ENTRYPOINT ["kquota"]
CMD ["--help"]
