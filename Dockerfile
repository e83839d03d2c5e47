# The book in a container, built and run by an ordinary user:
#   docker build -t ml-performance-survey . && mkdir -m 777 pages && docker run --rm -v "$PWD/pages:/pages" ml-performance-survey
# A release pins the base by digest: --build-arg BASE=python@sha256:... (docker image inspect --format '{{index .RepoDigests 0}}' says which).
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends make git chromium && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home reader && mkdir /artifact && chown reader /artifact
USER reader
WORKDIR /artifact
COPY --chown=reader requirements.txt requirements-dev.txt Makefile ./
RUN make .venv/.tester
COPY --chown=reader . .
CMD ["sh", "-c", "make book && make check && cp -r _build/html/. /pages/"]
