"""Renew the GPU recordings in tests/gpu/data: `python tests/gpu/record.py FOLDER [NAME ...]`, on a machine with a GPU.

Each workload runs in each mode twice, in processes of their own: with cold caches, then with what the first left.
Raw logs of torch's own (`TORCH_TRACE`) of the cold runs go beside the recordings. A third run measures each kernel.
"""

import functools
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

RUNS = [
    *(("gpt", mode, state) for mode in ("default", "reduce-overhead", "max-autotune") for state in ("cold", "warm")),
    *(("resnet", mode, "cold") for mode in ("default", "reduce-overhead", "max-autotune")),
    ("resnet", "max-autotune", "warm"),
    ("oddities", "reduce-overhead", "cold"),
    ("oddities", "reduce-overhead", "warm"),
    *(("gpt", mode, "profiled") for mode in ("default", "reduce-overhead", "max-autotune")),
    *(("resnet", mode, "profiled") for mode in ("default", "reduce-overhead")),
    ("decoder", "default", "profiled"),
]
HERE = Path(__file__).resolve().parent


def main() -> None:
    if sys.argv[1] == "--one":
        _record(Path(sys.argv[2]), *sys.argv[3:])
        return
    out, names = Path(sys.argv[1]), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    for workload, mode, state in RUNS:
        name = out / f"{workload}-{mode}-{state}"
        if names and name.name not in names:
            continue
        # What is profiled is another program: what these left in the caches would be told with their nodes.
        own = "-profiled" if state == "profiled" else ""
        caches, traces = out / f"caches-{workload}-{mode}{own}", out / f"trace-{workload}-{mode}-{state}"
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches), "PYTHONPATH": str(HERE.parent.parent)}
        if state == "cold":
            environment["TORCH_TRACE"] = str(traces)
        done = subprocess.run(
            [sys.executable, __file__, "--one", f"{name}.clens", workload, mode, state], env=environment, check=False
        )
        print(f"{name.name}: exit status {done.returncode}", flush=True)
        scrub_journal(Path(f"{name}.clens"))
        for log in sorted(traces.glob("*.log"))[:1]:
            scrub_log(log, Path(f"{name}.trace.log.gz"))


def _record(path: Path, workload: str, mode: str, state: str) -> None:
    import torch
    from models import PROFILED, WORKLOADS, train_on

    import compiler_lens

    torch.manual_seed(0)
    lens = compiler_lens.Lens(path)
    settings = {} if mode == "default" else {"mode": mode}
    compiled = functools.partial(torch.compile, backend=lens, **settings)
    if state == "profiled":
        model, x, training = PROFILED[workload]()
        as_compiled = compiled(model)
        with torch.set_grad_enabled(training):
            print(lens.profile(as_compiled, x, training=training))
        if workload == "decoder":
            train_on(as_compiled, model.net)
    else:
        WORKLOADS[workload](compiled)
    torch.cuda.synchronize()
    lens.close()
    print(lens.report(width=120))
    print(f"overhead {lens.overhead_seconds:.3f} s")


SCRUBS = (
    (re.compile(r"/[\w./-]*?/site-packages/"), "/usr/lib/python3/site-packages/"),
    (re.compile(re.escape(str(HERE.parent.parent)) + "/"), "/home/user/app/"),
    (re.compile(r"/[\w./-]*caches-[\w-]+/"), "/tmp/torchinductor_user/"),
    (re.compile(r'"platform":"[^"]*"'), '"platform":"Linux-6.8-x86_64"'),
    (re.compile(r'"argv":\[[^]]*\]'), '"argv":["train.py"]'),
)


def scrub(text: str) -> str:
    """The text without paths and names of the machine that it was made on."""
    for pattern, replacement in SCRUBS:
        text = pattern.sub(replacement, text)
    return text


def scrub_journal(path: Path) -> None:
    lines = [_without_cache_key(json.loads(line)) for line in path.read_text().splitlines()]
    text = "\n".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)
    with gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as file:
        file.write(scrub(text + "\n").encode())
    path.unlink()


def _without_cache_key(line: dict) -> dict:
    # The components of a cache key are many kilobytes, and name the machine in many ways.
    if isinstance(line.get("is"), str) and line["is"].startswith("{") and '"components"' in line["is"]:
        value = json.loads(line["is"])
        line["is"] = json.dumps({**value, "components": []})
    return line


def scrub_log(log: Path, target: Path) -> None:
    """A log of torch's with its payloads scrubbed, and their hashes made anew."""
    blocks: list[tuple[str, list[str]]] = []
    for line in log.read_text().splitlines():
        if line.startswith("\t"):
            blocks[-1][1].append(scrub(line[1:]))
        else:
            blocks.append((scrub(line), []))
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        for head, payload in blocks:
            digest = hashlib.md5("\n".join(payload).encode(), usedforsecurity=False).hexdigest()
            head_with_hash = re.sub(r'("has_payload": ")[0-9a-f]{32}', rf"\g<1>{digest}", head)
            file.write("\n".join([head_with_hash, *("\t" + line for line in payload)]).encode() + b"\n")


if __name__ == "__main__":
    main()
