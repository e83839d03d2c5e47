# The book in a container: docker build -t ml-performance-survey . && docker run --rm -v "$PWD/pages:/pages" ml-performance-survey
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends make git chromium && rm -rf /var/lib/apt/lists/*
WORKDIR /artifact
COPY requirements.txt requirements-dev.txt Makefile ./
RUN make .venv/.tester
COPY . .
CMD ["sh", "-c", "make book && make check && cp -r _build/html/. /pages/"]
