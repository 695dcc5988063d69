"""A server with an OpenAI-compatible interface and no model, run as a program: `--port N`.

Options say how it misbehaves: `--ready-after SECONDS`, `--refuse TEXT`, `--cached TOKENS`,
`--silent` (answers without a token), `--never` (takes a request, and ends only once its client is gone).
With `--dies NUMBER` it sends itself this signal at the first request; with `--breaks-off STATUS` it closes
the connection then, and ends with this status a moment later.
With `--without-tokenizer` it has the interface of an SGLang that was started so, and no other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--ready-after", type=float, default=0.0)
parser.add_argument("--refuse")
parser.add_argument("--cached", type=int, default=0)
parser.add_argument("--silent", action="store_true")
parser.add_argument("--never", action="store_true")
parser.add_argument("--without-tokenizer", action="store_true")
parser.add_argument("--dies", type=int)
parser.add_argument("--breaks-off", type=int)
wanted = parser.parse_args()
gone = threading.Event()
BEGIN = time.monotonic()
TTFT_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/get_server_info":
            self._answer(200, {"skip_tokenizer_init": wanted.without_tokenizer})
            return
        ready = time.monotonic() - BEGIN >= wanted.ready_after
        self._answer(200 if ready else 503, {"data": [{"id": "small"}]} if ready else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if wanted.refuse:
            self._answer(400, {"error": {"message": wanted.refuse}})
            return
        if wanted.dies:
            os.kill(os.getpid(), wanted.dies)
        if wanted.breaks_off:
            self.connection.shutdown(socket.SHUT_RDWR)
            time.sleep(TTFT_SECONDS)
            os._exit(wanted.breaks_off)
        if wanted.without_tokenizer:
            self._generate(body)
            return
        asked = {name: body[name] for name in ("model", "max_tokens", "ignore_eos")}
        print(
            json.dumps({"name": self.headers["X-Request-Id"], "prompt": body["prompt"], **asked}), flush=True
        )
        if wanted.never:
            self.rfile.read(1)
            gone.set()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        time.sleep(TTFT_SECONDS)
        for _ in range(0 if wanted.silent else body["max_tokens"]):
            self._event({"choices": [{"text": "x"}]})
        self._event(
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": len(body["prompt"]),
                    "completion_tokens": body["max_tokens"],
                    "prompt_tokens_details": {"cached_tokens": wanted.cached},
                },
            }
        )
        self.wfile.write(b"data: [DONE]\n\n")

    def _generate(self, body: dict[str, Any]) -> None:
        if self.path != "/generate":
            self._answer(500, {"error": {"message": "Internal Server Error"}})
            return
        prompt, tokens = body["input_ids"], body["sampling_params"]["max_new_tokens"]
        print(json.dumps({"name": body["rid"], "prompt": prompt, "max_tokens": tokens}), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(tokens):
            counts = {"prompt_tokens": len(prompt), "completion_tokens": number + 1, "cached_tokens": 0}
            self._event({"output_ids": [7] * (number + 1), "meta_info": counts})
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        pass

    def _event(self, value: object) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def end(*_: object) -> None:
    if wanted.never:
        gone.wait()
    sys.exit(0)


signal.signal(signal.SIGINT, end)
ThreadingHTTPServer(("127.0.0.1", wanted.port), Handler).serve_forever()
