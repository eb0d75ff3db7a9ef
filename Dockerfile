# The README's two commands, the first while the image is built: docker build -t dpml . && docker run --rm dpml
FROM python:3.13
WORKDIR /dpml
COPY . .
RUN python3 -m venv .venv && . .venv/bin/activate && pip install -e . && dpml-run algo=capefm eps=0.1
CMD ["bash", "-c", ". .venv/bin/activate && pip install -e '.[test]' && pytest -q"]
