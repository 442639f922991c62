"""Where things lie, how a collector is run, and with what environment an engine process."""

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("KERNHES_BIN") or os.path.join(os.path.dirname(os.path.dirname(HERE)), "bin")
SHIM, BARE, HOOK, STEPS_LIBRARY, COLLECTOR, KERNHES = (os.path.join(BIN, name) for name in (
    "libkernhes.so", "libbare.so", "libhook.so", "libsteps.so", "otelcol-kernhes", "kernhes"))

CONFIG = """
receivers:
  kernhes: {{endpoint: "unix://{socket}", control_endpoint: "127.0.0.1:{control}", dump: "{dump}", collection_interval: 1s, reconnect_timeout: {reconnect}{more}}}
exporters:
  prometheus: {{endpoint: "127.0.0.1:{port}", resource_constant_labels: {{included: ["*"]}}, metric_expiration: 1h}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [kernhes], exporters: [prometheus]}}
"""


def unpack_collector():
    """A collector that came gzipped, because it travels so, is unpacked."""
    if not os.path.exists(COLLECTOR):
        with gzip.open(COLLECTOR + ".gz") as packed, open(COLLECTOR, "wb") as whole:
            shutil.copyfileobj(packed, whole)
        os.chmod(COLLECTOR, 0o755)


class Collector:
    """A collector with a socket and a dump of its own, in a folder that goes with it."""

    def __init__(self, reconnect="5s", table=None):
        """table: a class table's text."""
        self.reconnect, self.more = reconnect, ""
        self.folder = tempfile.mkdtemp(prefix="kernhes-gpu-")
        if table is not None:
            with open(self.folder + "/table.tsv", "w") as f:
                f.write(table)
            self.more = f', class_table: "{self.folder}/table.tsv"'
        self.socket, self.dump = self.folder + "/k.sock", self.folder + "/dump.jsonl"
        self.log = open(self.folder + "/log", "ab")
        with socket.socket() as a, socket.socket() as b:
            for s in (a, b):
                s.bind(("127.0.0.1", 0))
            self.port, self.control = a.getsockname()[1], b.getsockname()[1]
        self.process = None

    def start(self):
        with open(self.folder + "/config.yaml", "w") as f:
            f.write(CONFIG.format(socket=self.socket, control=self.control, dump=self.dump, port=self.port, reconnect=self.reconnect, more=self.more))
        command = [COLLECTOR, "--config", self.folder + "/config.yaml"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(200):
            if os.path.exists(self.socket):
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        with open(self.folder + "/log") as f:
            raise RuntimeError("the collector did not start: " + f.read()[-2000:])

    def stop(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def lines(self, pids=None):
        """The dump's lines: steps of the sessions of those processes, and the sessions themselves; None: all."""
        if not os.path.exists(self.dump):
            return [], []
        steps, sessions, _ = self.journal(pids)
        return steps, sessions

    def journal(self, pids=None):
        """Steps, sessions, and the entries about what was settled without a step; None: of all sessions, ended or not."""
        with open(self.dump) as f:
            all_lines = [json.loads(line) for line in f if line.endswith("\n")]
        sessions = [x for x in all_lines if x["kind"] == "session" and (pids is None or int(x["pid"]) in pids)]
        names = {x["session"] for x in sessions}
        of = {kind: [x for x in all_lines if x["kind"] == kind and (pids is None or x["session"] in names)] for kind in ("step", "ack")}
        return of["step"], sessions, of["ack"]

    def session(self, pid, seconds=5):
        """Waits for the session of a process to end; its line, or None."""
        for _ in range(int(seconds * 20)):
            found = self.lines({pid})[1]
            if found:
                return found[0]
            time.sleep(0.05)
        return None

    def wait(self, until, seconds):
        """Waits until the sessions that have ended are as wanted; false if they don't become so."""
        return eventually(lambda: until(self.lines()[1]), seconds)

    def metrics(self):
        """The Prometheus page as {line without its value: value}."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5).read().decode()
        return {k: float(v) for k, _, v in (x.rpartition(" ") for x in page.splitlines() if not x.startswith("#"))}

    def sum(self, name):
        """The sum of a metric over its points."""
        return sum(v for k, v in self.metrics().items() if k.partition("{")[0] == name)

    def engine(self, pid):
        """What GET /status says of a process, or None."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.control}/status?format=json", timeout=5).read()
        return next((s for s in json.loads(page)["sessions"] if int(s["pid"] or 0) == pid), None)

    def ask(self, *command):
        """Runs a subcommand of kernhes that asks this collector; what it said. Whether it came so, engine() tells."""
        done = subprocess.run([KERNHES, *map(str, command), "--endpoint", f"http://127.0.0.1:{self.control}"], capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.stop()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def eventually(true, seconds):
    """Waits until something is true; false if it does not become so."""
    until = time.time() + seconds
    while not true():
        if time.time() > until:
            return False
        time.sleep(0.05)
    return True


def of_name(run, name):
    """Whether a run is a start of a name: the first, or one that came later."""
    return run == name or run.startswith(name + "#")


def resident(pid):
    """Resident MiB of a process."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


def environment(endpoint=None, **more):
    """The environment of an engine process: with libkernhes if there is an endpoint (a path); values are added to it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("KERNHES_")}
    if endpoint:
        env.update(CUDA_INJECTION64_PATH=SHIM, NVTX_INJECTION64_PATH=SHIM, KERNHES_ENDPOINT="unix://" + endpoint)
    env.update(more)
    return {k: v for k, v in env.items() if v is not None}


def worker(*args, env, **options):
    """Starts worker.py."""
    command = [sys.executable, os.path.join(HERE, "worker.py"), *map(str, args)]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, **options)


class Engine:
    """A worker that takes turns: it runs steps when it is told to. `kernels`: of each kind of step."""

    def __init__(self, env, *args):
        self.process, self.ran = worker("turns", *args, env=env, stdin=subprocess.PIPE), 0
        self.pid = self.process.pid
        self.kernels = None  # until it is ready

    def ready(self):
        self.kernels = self._answer()["kernels"]
        return self

    def begin(self, *command):
        self.process.stdin.write(" ".join(map(str, command)) + "\n")
        self.process.stdin.flush()

    def end(self):
        """The answer to what was begun."""
        said = self._answer()
        self.ran += said.get("ran", 0)
        return said

    def do(self, *command):
        self.begin(*command)
        return self.end()

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"a worker ended with {self.process.wait(60)}")

    def stop(self):
        """Lets it end; its exit code."""
        self.process.stdin.close()
        return self.process.wait(60)


def answers(process, seconds=240):
    """Waits for a worker to end; its lines."""
    out, _ = process.communicate(timeout=seconds)
    if process.returncode != 0:
        raise RuntimeError(f"a worker ended with {process.returncode}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]
