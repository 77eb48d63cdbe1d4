# The operator and the command line in one image: built from the wheel, run by nobody in particular, written to by nobody.
#   docker build --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
# A release names the image of Python by its digest (.github/workflows/release.yml).
ARG PYTHON_IMAGE=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG SOURCE=/src
ARG PREFIX=/opt/kquota
# `usage` beside them is for the job that publishes evidence (docs/evidence.md).
ARG EXTRAS=operator,keystores
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR ${SOURCE}
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY reconciler ./reconciler
RUN python -m pip wheel --quiet --no-deps --wheel-dir dist .
RUN python -m venv ${PREFIX}
# The versions that were tested, and no others.
RUN ${PREFIX}/bin/python -m pip install --quiet --constraint constraints.txt "$(echo dist/*.whl)[${EXTRAS}]"
# Nothing in the image installs anything any more; what it imports is compiled, because nobody may write there.
RUN ${PREFIX}/bin/python -m pip uninstall --quiet --yes setuptools pip \
 && ${PREFIX}/bin/python -m compileall -q ${PREFIX}/lib

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
# One arena: those of further threads would take 10 MB that are never given back.
ENV MALLOC_ARENA_MAX=1
WORKDIR /tmp
RUN kquota --version
# A number, so that runAsNonRoot can be checked; OpenShift puts another one in its place.
USER 65532:65532
ENTRYPOINT ["kquota"]
CMD ["--help"]
