# Two stages: the wheel is built where the tools for it are, and the image that runs holds only what it needs to run.
#   docker build -t decluster .
#   docker run --rm -p 127.0.0.1:8080:8080 -e DECLUSTER_UPSTREAM=https://api.openai.com decluster
# Or with a file: -v ./decluster.yaml:/etc/decluster.yaml:ro -e DECLUSTER_CONFIG=/etc/decluster.yaml
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
# PYTHONUNBUFFERED: a log line is out when it is written, also in the moment before the end.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels --compile decluster \
 && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin decluster
# A number, so that Kubernetes can see that it is not root.
USER 10001
EXPOSE 8080
# Drains: running streams have shutdown.grace to end. Give the container longer than that (docker stop -t 35).
STOPSIGNAL SIGTERM
# http.client and not urllib, which would ask a proxy of the environment for the way to this container. With another --port, say so.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", "import http.client; \
c = http.client.HTTPConnection('127.0.0.1', 8080, timeout=2); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["decluster"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
