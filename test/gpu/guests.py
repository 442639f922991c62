"""Processes that do what engines do to a guest. Each must end as it would without one, and lose nothing it could keep.

A snippet prints `kernels N` for what it launched (`kernels N or none`: if tracing is on), or `count me`: then it runs again
without kernhes, under torch.profiler, which counts. `ends` are the ends of the sessions that the collector must have seen,
in any order; None: it does not matter. A second process on one GPU is another start of the run's name.
"""

import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from rig import BARE, HOOK, KERNHES, SHIM, Collector, environment, of_name

TORCH = """
import os, sys, time, threading, signal, subprocess
import torch
def work(n, stream=None):
    with torch.cuda.stream(stream):
        x = torch.ones(4096, device='cuda')
        for _ in range(n - 1): x.add_(1)
        torch.cuda.synchronize()
"""

DRIVER = """
import ctypes, os
cuda = ctypes.CDLL('libcuda.so.1')
def call(name, *args):
    result = getattr(cuda, name)(*args)
    assert result == 0, (name, result)
PTX = b'.version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry %s() { ret; }\\n'
def launch(name):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call('cuModuleLoadData', ctypes.byref(module), PTX % name)
    call('cuModuleGetFunction', ctypes.byref(function), module, name)
    call('cuLaunchKernel', function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call('cuCtxSynchronize')
    call('cuModuleUnload', module)
call('cuInit', 0)
"""

GRAPH = TORCH + """
def capture(x, n, side=False):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(n): x.add_(1)
        if side:
            other = torch.cuda.Stream()
            y = x + 1
            other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                for _ in range(n): y.add_(1)
            for _ in range(n): x.mul_(1)
            torch.cuda.current_stream().wait_stream(other)
    graph.instantiate()
    return graph
x = torch.ones(4096, device='cuda')
"""

PROFILED = """
import torch
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
profiler.start()
exec(%r)
torch.cuda.synchronize()
profiler.stop()
on_gpu = [e.name for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
print('kernels', sum(not name.startswith(('Memcpy', 'Memset')) for name in on_gpu))
"""

# Runs INSIDE in a process of its own, whatever is around that, and says how it ended there.
AROUND = """
import sys, subprocess, tempfile
with tempfile.TemporaryDirectory() as folder:
    around = [a.replace('FOLDER', folder) for a in %r]
    inside = ['sh', '-c', '"$0" -X faulthandler -c "$1"; echo code $?', sys.executable, %r]
    out = subprocess.run(around + inside, stdout=subprocess.PIPE, text=True).stdout
assert 'code 0' in out, out
print(out)
"""

INSIDE = """
import torch
x = torch.ones(8, device='cuda')
for _ in range(99): x.add_(1)
torch.cuda.synchronize(); print('kernels 100 or none')
"""

NSYS = shutil.which("nsys") or next(iter(sorted(glob.glob("/opt/nvidia/nsight-*/**/target-linux-x64/nsys", recursive=True))), None)
PROFILE = [NSYS, "profile", "-t", "cuda,nvtx", "--sample=none", "--cpuctxsw=none", "-o", "FOLDER/report"]
RUN = [KERNHES, "run", "--"]

BYE, GONE = "bye", "gone"
PATIENCE = 60  # s; importing PyTorch on a cold machine takes 10

GUESTS = {  # name: (snippet, exit code, ends of sessions, environment)
    "runs and exits": (TORCH + "work(100); print('kernels 100')", 0, [BYE], {}),
    "fork: a Python child exits normally": (TORCH + """
work(50)
pid = os.fork()
if pid == 0: sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
work(50); print('kernels 100')""", 0, [BYE], {}),
    "fork before CUDA: the child uses it": (TORCH + """
pid = os.fork()
if pid == 0:
    work(50)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
work(50); print('kernels 100')""", 0, [BYE, BYE], {}),
    "exec": (TORCH + """
if len(sys.argv) < 2:
    work(50); time.sleep(1)
    os.execv(sys.executable, [sys.executable, '-c', open('/proc/self/cmdline').read().split('\\0')[4], 'again'])
work(50); print('kernels 100')""", 0, [BYE, GONE], {}),
    "spawn: two workers": (TORCH + """
code = open('/proc/self/cmdline').read().split('\\0')[4]
if len(sys.argv) > 1:
    work(50)
    sys.exit(0)
torch.cuda.device_count()
workers = [subprocess.Popen([sys.executable, '-c', code, 'worker']) for _ in range(2)]
assert [w.wait() for w in workers] == [0, 0]
print('kernels 100')""", 0, [BYE, BYE], {}),
    "only cuInit: no thread, no connection": (DRIVER + """
names = [open(f'/proc/self/task/{t}/comm').read() for t in os.listdir('/proc/self/task')]
assert not any('kernhes' in n for n in names), names
""", 0, [], {}),
    "os._exit": (TORCH + "work(100); time.sleep(0.5); os._exit(5)", 5, [GONE], {}),
    "SIGKILL": (TORCH + "work(100); time.sleep(0.5); os.kill(os.getpid(), signal.SIGKILL)", -9, [GONE], {}),
    "SIGTERM": (TORCH + "work(100); time.sleep(0.5); os.kill(os.getpid(), signal.SIGTERM)", -15, [GONE], {}),
    "an exception": (TORCH + "work(100); print('kernels 100'); raise SystemExit(3)", 3, [BYE], {}),
    "contexts made and destroyed": (DRIVER + """
device = ctypes.c_int()
call('cuDeviceGet', ctypes.byref(device), 0)
for i in range(20):
    context = ctypes.c_void_p()
    call('cuCtxCreate_v2', ctypes.byref(context), 0, device)
    for _ in range(5): launch(b'k%d' % i)
    call('cuCtxDestroy_v2', context)
print('kernels 100')""", 0, [BYE], {"KERNHES_CUPTI": "CUPTI"}),
    "modules unloaded": (DRIVER + """
device, context = ctypes.c_int(), ctypes.c_void_p()
call('cuDeviceGet', ctypes.byref(device), 0)
call('cuDevicePrimaryCtxRetain', ctypes.byref(context), device)
call('cuCtxSetCurrent', context)
for i in range(300): launch(b'kernel_%d' % i)
print('kernels 300')""", 0, [BYE], {"KERNHES_CUPTI": "CUPTI"}),
    "graphs re-instantiated": (GRAPH + """
for i in range(20):
    graph = capture(x, 20)
    for _ in range(3):
        graph.instantiate()
        for _ in range(5):
            graph.replay()
torch.cuda.synchronize(); print('count me')""", 0, [BYE], {}),
    "a graph updated while it lives": (GRAPH + """
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
first, second = capture(x, 30), capture(x, 30)
for i in range(20):
    source = second if i % 2 else first
    info = (ctypes.c_byte * 64)()
    executable = ctypes.c_void_p(first.raw_cuda_graph_exec())
    result = cuda.cuGraphExecUpdate_v2(executable, ctypes.c_void_p(source.raw_cuda_graph()), info)
    assert result == 0, result
    for _ in range(5):
        first.replay()
torch.cuda.synchronize(); print('count me')""", 0, [BYE], {}),
    "several streams captured": (GRAPH + """
graph = capture(x, 10, side=True)
for _ in range(50): graph.replay()
torch.cuda.synchronize(); print('count me')""", 0, [BYE], {}),
    "eight threads launch": (TORCH + """
work(10)
threads = [threading.Thread(target=work, args=(500, torch.cuda.Stream())) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print('kernels', 10 + 8 * 500)""", 0, [BYE], {}),
    "torch.profiler after us: it says what it lacks": (TORCH + """
work(50)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]): work(50)
work(50); print('kernels 150')""", 0, [BYE], {}),
    "torch.profiler before the first CUDA call": (TORCH + """
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]): work(50)
work(50)""", 0, None, {}),
    "another CUPTI client before us: we say what we lack": (TORCH + "work(50)", 0, [BYE], {"KERNHES_CUDA_NEXT": "BARE"}),
    "torch.profiler with tracing off": (TORCH + """
work(50)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p: work(50)
kernels = sum(e.device_type == torch.autograd.DeviceType.CUDA for e in p.events())
assert kernels >= 50, kernels""", 0, [], {"KERNHES_SOFTWARE": None}),
    "tracing off: heard of at the first range": (TORCH + """
work(50)
torch.cuda.nvtx.range_push('step:decode'); work(50); torch.cuda.nvtx.range_pop()""", 0, [BYE], {"KERNHES_SOFTWARE": None}),
    "LD_PRELOAD": (TORCH + "work(100); print('kernels 100')", 0, [BYE],
                   {"CUDA_INJECTION64_PATH": None, "NVTX_INJECTION64_PATH": None, "LD_PRELOAD": SHIM}),
    "kernhes run": (DRIVER + """
import sys, subprocess
code = open('/proc/self/cmdline').read().split('\\0')[4]
if len(sys.argv) < 2:
    returned = subprocess.call(['KERNHES', 'run', '--', sys.executable, '-X', 'faulthandler', '-c', code, 'inside'])
    sys.exit(returned)
import torch
x = torch.ones(8, device='cuda')
for _ in range(99): x.add_(1)
torch.cuda.synchronize(); print('kernels 100'); sys.exit(9)""", 9, [BYE], {"CUDA_INJECTION64_PATH": None, "NVTX_INJECTION64_PATH": None}),
    "a launch from a fresh thread under a malloc hook": (TORCH + """
import ctypes
hook = ctypes.CDLL(os.environ['LD_PRELOAD'])
x = torch.ones(8, device='cuda')
counts = []
def fresh():
    hook.hook_begin()
    torch.cuda.nvtx.range_push('step:decode'); x.add_(1); torch.cuda.nvtx.range_pop()
    counts.append(hook.hook_end())
for library in (b'libkernhes', b'libstdc++'):
    assert hook.hook_of(library), library
    for _ in range(20):
        thread = threading.Thread(target=fresh)
        thread.start(); thread.join()
torch.cuda.synchronize()
assert not any(counts[:20]) and all(counts[20:]), counts
print('kernels 41')""", 0, [BYE], {"LD_PRELOAD": "HOOK"}),
    "nsys around us": (AROUND % (PROFILE + RUN, INSIDE), 0, None, {"CUDA_INJECTION64_PATH": None, "NVTX_INJECTION64_PATH": None}),
    "nsys in us": (AROUND % (RUN + PROFILE, INSIDE), 0, None, {"CUDA_INJECTION64_PATH": None, "NVTX_INJECTION64_PATH": None}),
    "a second libkernhes": (TORCH + "work(100); print('kernels 100')", 0, [BYE], {"LD_PRELOAD": "COPY"}),
    "CUDA_VISIBLE_DEVICES is empty": (TORCH + "assert not torch.cuda.is_available()", 0, [], {"CUDA_VISIBLE_DEVICES": ""}),
    "several GPUs in one process": (TORCH + """
for device in range(torch.cuda.device_count()):
    with torch.cuda.device(device): work(50)
print('kernels', 50 * torch.cuda.device_count())""", 0, None, {}),
    "no CUPTI": (DRIVER + """
device, context = ctypes.c_int(), ctypes.c_void_p()
call('cuDeviceGet', ctypes.byref(device), 0)
call('cuDevicePrimaryCtxRetain', ctypes.byref(context), device)
call('cuCtxSetCurrent', context)
launch(b'k')""", 0, None, {"KERNHES_CUPTI": "/nowhere/libcupti.so"}),
}


def cupti():
    """The libcupti that PyTorch brings, for processes without PyTorch."""
    code = "import nvidia.cu13, glob; print(glob.glob(list(nvidia.cu13.__path__)[0] + '/lib/libcupti.so*')[0])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    return found or "libcupti.so.13"


def one(collector, name, values):
    snippet, code, ends, more = GUESTS[name]
    snippet = snippet.replace("'KERNHES'", repr(KERNHES))
    more = {k: values.get(v, v) for k, v in more.items()}
    run = re.sub(r"\W+", "-", name)
    env = environment(collector.socket, **{"KERNHES_SOFTWARE": "on", "KERNHES_LINGER_MS": "3000", "KERNHES_LOG": "1",
                                           "KERNHES_RUN": run, **more})
    returned, out, err = execute(snippet, env)
    if returned != code and ends is not None:  # is it us?
        alone = execute(snippet, environment(**{k: v for k, v in more.items() if k.startswith("CUDA_V")}))[0]
        err += f"\nwithout the shim it ends with {alone}"
    if "count me" in out:
        out = execute(PROFILED % snippet, environment())[1]
    said = re.search(r"kernels (\d+)( or none)?", out)
    kernels = None if said is None else {int(said[1])} | ({0} if said[2] else set())
    return run, code, ends, kernels, returned, err


def execute(snippet, env):
    """Exit code (or where it hangs), stdout and stderr of a Python snippet."""
    process = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", snippet], env=env, text=True, stdout=-1, stderr=-1,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        stacks = subprocess.run(["cuda-gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"],
                                capture_output=True, text=True, timeout=60).stdout if shutil.which("cuda-gdb") else ""
        os.killpg(process.pid, signal.SIGKILL)
        return "a hang", process.stdout.read(), process.stderr.read() + stacks[-6000:]


def judge(collector, ran):
    """One line of the table from what ran and what the dump says of it."""
    run, code, ends, kernels, returned, err = ran
    sessions = [s for s in collector.lines()[1] if of_name(s["run"], run)]
    ended = sorted(s["ended"] for s in sessions)
    faults = []
    if returned != code:
        faults.append(f"ended with {returned}, not {code}: {err[-6000:]}")
    if ends is not None and ended != sorted(ends):
        faults.append(f"sessions ended {ended}, not {sorted(ends)}")
    seen = sum(s["kernels"] for s in sessions)
    if kernels is not None and seen not in kernels:
        faults.append(f"{seen} kernels, {kernels} ran")
    for s in sessions:
        odd = {k: s[k] for k in ("invalid", "duplicate", "missing") if s[k]}
        odd.update({k: v for k, v in (s["dropped"] or {}).items() if v})
        if odd:
            faults.append(f"{odd}")
    modes = sorted({s["mode"] for s in sessions})
    if "off" in modes and not re.search(r"tracing: off: .", err):
        faults.append("it does not say why it traces nothing")
    ours = [line for line in err.splitlines() if "kernhes" in line.lower() or "cupti" in line.lower()]
    return not faults, {"faults": faults, "sessions": ended, "kernels": seen, "mode": modes, "log": ours[-3:]}


def guests(only=None):
    """The table's lines: (what, passed, detail)."""
    with tempfile.TemporaryDirectory() as folder, Collector() as collector:
        copy = shutil.copy(SHIM, folder + "/libkernhes-copy.so")
        values = {"CUPTI": cupti(), "COPY": copy, "BARE": BARE, "HOOK": HOOK}
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            names = [name for name in GUESTS if (only is None or name in only) and (NSYS or "nsys" not in name)]
            ran = dict(zip(names, pool.map(lambda name: one(collector, name, values), names)))
        # The last sessions without a farewell count as gone after the collector's reconnect_timeout.
        gone = {run: ends.count(GONE) for run, _, ends, *_ in ran.values() if ends}
        collector.wait(lambda sessions: all(
            sum(of_name(s["run"], run) and s["ended"] == GONE for s in sessions) >= n for run, n in gone.items()), 15)
        return [(name, *judge(collector, r)) for name, r in ran.items()]
