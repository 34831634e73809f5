# A model behind `saccade serve`, without root. At least 16 letters of token, and the name under which it is asked for:
#
#   docker build -t saccade .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/runs/my_images:/model:ro" -e SACCADE_TOKEN saccade localhost
FROM python:3.11-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY saccade saccade
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /constraints.txt
COPY --from=wheel /wheels /wheels
# torch without CUDA: the one of PyPI brings gigabytes that this image has no use for.
RUN pip install --no-cache-dir --constraint /constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu \
      torch==2.15.0+cpu torchvision==0.29.2+cpu \
 && wheel="$(ls /wheels/*.whl)" \
 && pip install --no-cache-dir --constraint /constraints.txt "saccade[serve,slides] @ file://${wheel}" \
 && useradd --create-home --uid 10001 saccade
USER 10001
WORKDIR /home/saccade
EXPOSE 8000
# 503 where the worker is stuck, 401 with another token: both raise.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import os, urllib.request as web; \
web.urlopen(web.Request('http://localhost:8000/api/health', headers={'Authorization': 'Bearer ' + os.environ['SACCADE_TOKEN']}))"]
ENTRYPOINT ["sh", "-c", "exec saccade serve /model --host 0.0.0.0 --port 8000 --token \"$SACCADE_TOKEN\" --allowed-host localhost \"$@\"", "serve"]
