# The gateway of one workspace. docs/guides/deploy.md tells how to run it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# The versions that are tested; hashes cannot be required here, since the package itself has none.
RUN grep -oE '^[A-Za-z0-9._-]+==[^ ;]+' constraints.txt > /tmp/versions.txt \
    && python -m venv /opt/pegboard \
    && /opt/pegboard/bin/pip install --no-cache-dir -c /tmp/versions.txt \
        ".[openai,anthropic,gemini,documents,web,postgres,dbos]"

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 pegboard \
    && mkdir -p /workspace /home/pegboard/.config/pegboard \
    && chown -R pegboard:pegboard /workspace /home/pegboard
COPY --from=build /opt/pegboard /opt/pegboard
ENV PATH=/opt/pegboard/bin:$PATH
USER pegboard
WORKDIR /workspace
VOLUME ["/workspace", "/home/pegboard"]
EXPOSE 8770
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://localhost:8770/api/health', timeout=4)"]
ENTRYPOINT ["pegboard"]
CMD ["serve", "--workspace", "/workspace", "--host", "0.0.0.0", "--port", "8770", "--allow-host", "localhost:8770"]
