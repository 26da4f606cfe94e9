# The server of a Lakeroot catalog. Mount or name a catalog, and give an access file, which
# `lakeroot token create` and `lakeroot grant add` make:
#   docker build -t lakeroot .
#   docker run -p 8181:8181 -v ./lake:/lake -v ./access.toml:/etc/lakeroot/access.toml:ro lakeroot
FROM python:3.11-slim AS build
WORKDIR /src
RUN pip install --no-cache-dir uv
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY src src
RUN uv sync --frozen --no-dev --no-editable --extra server --extra cli

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home lakeroot && mkdir /lake && chown lakeroot /lake
COPY --from=build /src/.venv /src/.venv
ENV PATH="/src/.venv/bin:$PATH" PYTHONUNBUFFERED=1
USER lakeroot
VOLUME ["/lake"]
EXPOSE 8181
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", \
  "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8181/healthz', timeout=2)"]
ENTRYPOINT ["lakeroot", "serve"]
CMD ["/lake", "--host", "0.0.0.0", "--access-file", "/etc/lakeroot/access.toml"]
