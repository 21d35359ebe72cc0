# The portal: one image for web, worker, scheduler and migrations; compose.yaml says which does what.

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
RUN python -m venv /opt/venv
# First what changes seldom: the packages. The runtime is installed whole, not as a link into the sources.
COPY requirements.lock ./
RUN /opt/venv/bin/pip install --require-hashes -r requirements.lock
COPY runtime runtime
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation ./runtime
COPY . .
# The settings want keys, and nothing of this step uses them.
RUN HOOKGATE_VAR_DIR=/tmp/build HOOKGATE_STATIC_DIR=/app/static HOOKGATE_SECRET_KEY=build HOOKGATE_ENCRYPTION_KEYS=build \
    /opt/venv/bin/python manage.py collectstatic --noinput --verbosity 0 \
    && /opt/venv/bin/python -m compileall -q manage.py portal channels_app hooks_app \
    && rm -rf runtime /tmp/build

FROM python:3.11.14-slim-bookworm
RUN groupadd --gid 10001 hookgate && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin hookgate \
    && install -d -o hookgate -g hookgate -m 0700 /run/hookgate
COPY --from=build /opt/venv /opt/venv
# Owned by root: the process can't change its own code.
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOOKGATE_STATIC_DIR=/app/static \
    HOOKGATE_VAR_DIR=/run/hookgate
WORKDIR /app
USER 10001:10001
EXPOSE 8000
CMD ["python", "manage.py", "serve", "--host", "0.0.0.0", "--port", "8000"]
