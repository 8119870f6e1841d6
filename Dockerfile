# Two stages: the wheels are built where the compiler is, and the image that runs holds only what it needs to run.
#   docker build -t decluster .
#   docker run --rm -p 127.0.0.1:8080:8080 -e DECLUSTER_UPSTREAM=https://api.openai.com/v1 decluster
# Or with a file: -v ./decluster.yaml:/etc/decluster.yaml:ro -e DECLUSTER_CONFIG=/etc/decluster.yaml
# It needs to write nowhere (--read-only); with --workers, to /tmp (--tmpfs /tmp).
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# Seconds since 1970, for an image that is the same whenever it is built: --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ARG SOURCE_DATE_EPOCH
# redis: what several replicas need. otel: spans, 14 MB more.
ARG EXTRAS=redis
# hadolint ignore=DL3008 # whichever compiler and strip this Debian has; Python's headers come with the base
RUN apt-get update && apt-get install -y --no-install-recommends binutils gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY gateway ./gateway
# The stream's path as native code (hatch_build.py), a few minutes; "false" leaves it to Python.
ARG HATCH_BUILD_HOOK_ENABLE_CUSTOM=true
# Wheels bring what debuggers need, 40 MB of it. Bytecode is made here, since nothing can be written later; by content, so that no file's time is in it.
# hadolint ignore=DL3013 # the project itself; the ranges of what it needs stand in pyproject.toml
RUN pip install --no-cache-dir --no-compile --prefix=/install ".[${EXTRAS}]" \
 && find /install -name '*.so*' -type f -exec strip --strip-unneeded {} + \
 && python -m compileall -q -s /install -p /usr/local --invalidation-mode unchecked-hash /install/lib

FROM ${BASE}
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="decluster" \
      org.opencontainers.image.description="A gateway that turns bursty LLM streams into steady, complete and honestly ended ones" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# PYTHONUNBUFFERED: a log line is out when it is written, also in the moment before the end.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ARG SOURCE_DATE_EPOCH
RUN useradd --uid 10001 --no-log-init --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin decluster
COPY --from=build /install /usr/local
# A number, so that Kubernetes can see that it is not root.
USER 10001
EXPOSE 8080
# The program is process 1 and takes its signals itself: on SIGTERM running streams have shutdown.grace to end, on SIGHUP the
# configuration is read anew. Give the container longer than the grace (docker stop -t 40).
STOPSIGNAL SIGTERM
# http.client and not urllib, which would ask a proxy of the environment for the way to this container. With another --port, say so.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", "import http.client; \
c = http.client.HTTPConnection('127.0.0.1', 8080, timeout=2); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["decluster"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
