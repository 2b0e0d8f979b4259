# One image for broker, server and boards; amd64 and arm64, torch for the CPU.
#   docker build -t fedbed .
# Where pip finds CPU builds of torch on amd64: --build-arg PIP_EXTRA_INDEX_URL=..., or wheels in a
# folder wheels/ here (scripts/wheelhouse.sh wheels), alone with --build-arg PIP_NO_INDEX=1.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /opt/fedbed
ENV PATH=/opt/fedbed/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
# Another torch than that of common/install/torch_versions.txt, with the numpy it needs.
ARG TORCH
ARG NUMPY
# The largest and rarest first: layers above a change are not built again. The brackets make the
# folder optional. torch comes alone: with the others pip may fetch gigabytes of CUDA.
COPY constraints.txt wheel[s] wheels/
COPY common/install/choose_torch.sh common/install/torch_versions.txt ./
RUN cp wheels/constraints.txt . && . ./choose_torch.sh \
    && python=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
    && set -- $(choose_torch torch_versions.txt "$(uname -m)" armv8.0 "$(glibc_version)" "$python") \
    && torch=${TORCH:-$1} numpy=${NUMPY:-$2} \
    && if [ "$torch" != - ]; then sed -i "s/^torch==.*/torch==$torch/" constraints.txt; fi \
    && if [ "$numpy" != - ]; then sed -i "/^numpy==/d" constraints.txt && echo "numpy==$numpy" >> constraints.txt; fi \
    && pip install --find-links wheels -c constraints.txt torch \
    && rm -rf /opt/fedbed/lib/python3*/site-packages/torch/include \
    && find /opt/fedbed -name '*.a' -delete
RUN pip install --find-links wheels -c constraints.txt setuptools \
    click cryptography msgspec numpy paho-mqtt rich safetensors
COPY pyproject.toml README.md ./
COPY broker broker
COPY common common
COPY fl_client fl_client
COPY fl_server fl_server
RUN pip install --find-links wheels -c constraints.txt --no-build-isolation ".[broker]"

FROM ${PYTHON_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends mosquitto \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 fedbed \
    && folders="/broker /server /runs /bundle /state $(seq -f /bundles/%g 16)" \
    && mkdir /bundles && mkdir -m 0700 $folders && chown fedbed: $folders
COPY --from=build /opt/fedbed /opt/fedbed
COPY docker /opt/fedbed/docker
ENV PATH=/opt/fedbed/bin:$PATH PYTHONUNBUFFERED=1
USER fedbed
WORKDIR /home/fedbed
CMD ["fl-server", "--help"]
