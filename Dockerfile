FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/fedbed
ENV PATH=/opt/fedbed/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY constraints.txt ./
# torch first and alone: with the others in one go pip may fetch gigabytes of CUDA.
# On amd64 give the index of CPU builds: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN pip install -c constraints.txt \
    "torch==$(sed -n 's/^torch==//p' constraints.txt)"
COPY pyproject.toml README.md ./
COPY broker broker
COPY common common
COPY fl_server fl_server
COPY fl_client fl_client
RUN pip install -c constraints.txt ".[broker,data]"

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends mosquitto \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home fedbed \
    && mkdir /broker /state /runs \
    && chown fedbed: /broker /state /runs
COPY --from=build /opt/fedbed /opt/fedbed
ENV PATH=/opt/fedbed/bin:$PATH PYTHONUNBUFFERED=1
USER fedbed
WORKDIR /home/fedbed
CMD ["fl-server", "--help"]
