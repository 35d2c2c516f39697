# verbworker with the example application. Build on it for your own: FROM this image, COPY your verbs/ and processes/.
# The Python version is the one requirements.lock was resolved for.
FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY deploy/build.lock deploy/requirements.lock deploy/
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --require-hashes --only-binary :all: --requirement deploy/build.lock
# What runs has no pip: nothing is installed into it later.
RUN python -m venv --without-pip /opt/verbworker \
 && /opt/build/bin/python -m pip --python /opt/verbworker/bin/python install \
      --require-hashes --only-binary :all: --requirement deploy/requirements.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY lint lint
COPY sql sql
COPY verbworker verbworker
RUN /opt/build/bin/python -m pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels ./lint . \
 && /opt/build/bin/python -m pip --python /opt/verbworker/bin/python install --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim
# Nothing is written at run time, so the root file system may be read-only.
ENV PATH=/opt/verbworker/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    VERBWORKER_HTTP_HOST=0.0.0.0
WORKDIR /app
COPY --from=build /opt/verbworker /opt/verbworker
COPY pyproject.toml ./
COPY verbs verbs
COPY processes processes
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
EXPOSE 8090
# Alive is the event loop alone: a database that is away is no reason to restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import http.client, sys; line = http.client.HTTPConnection('127.0.0.1', 8090, timeout=4); line.request('GET', '/live'); sys.exit(line.getresponse().status != 200)"]
# No shell in between: SIGTERM reaches the worker, which drains.
ENTRYPOINT ["verbworker"]
CMD ["worker", "--app", "verbs:registry"]
