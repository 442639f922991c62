//go:build packages

package packages_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firsts are the packages of the first version, which both tests need.
var firsts string

// build makes the packages of a version in a new folder, and gives that.
func build(t testing.TB, version string) string {
	t.Helper()
	out, err := os.MkdirTemp(built, version+"-")
	require.NoError(t, err)
	command := exec.Command("../../packaging/build", "amd64")
	command.Env = append(os.Environ(), "VERSION="+version, "OUT="+out)
	text, err := command.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

const first, second = "0.9.1", "0.9.2"

// buildFirst makes the packages of the first version once.
func buildFirst(t testing.TB) string {
	t.Helper()
	if firsts == "" {
		firsts = build(t, first)
	}
	return firsts
}

func deb(dir, version string) string { return filepath.Join(dir, "kernhes_"+version+"-1_amd64.deb") }

// TestPackages follows one installation from the first version to its purge.
func TestPackages(t *testing.T) {
	one, two := buildFirst(t), build(t, second)
	m := newMachine(t)
	m.boot()
	m.must("useradd", "--system", "--create-home", "outsider")
	m.must("useradd", "--system", "--create-home", "reader")
	m.must("useradd", "--system", "--create-home", "engine")
	before := m.state()
	defer func() {
		if t.Failed() {
			log, _ := m.as("root", "journalctl", "--no-pager", "--lines=60", "--output=cat")
			t.Log(log)
		}
	}()

	m.step("install", func(t *testing.T) {
		m.must("dpkg", "-i", m.has(deb(one, first)))
		assert.Equal(t, "active", m.must("systemctl", "is-active", "kernhes.service"))
		assert.Equal(t, "enabled", m.must("systemctl", "is-enabled", "kernhes.service"))
		m.ready()
		for path, want := range map[string]string{
			"/etc/kernhes": "750 root kernhes", "/etc/kernhes/config.yaml": "640 root kernhes",
			"/run/kernhes": "2750 kernhes kernhes-engines", socket: "660 kernhes kernhes-engines",
			"/var/lib/kernhes": "750 kernhes kernhes", archive: "750 kernhes kernhes",
		} {
			assert.Equal(t, want, m.must("stat", "-c", "%a %U %G", path), path)
		}
		assert.Equal(t, first, m.must("kernhes", "version"))
		injected := m.must("kernhes", "run", "--engine", "vllm", "--", "env")
		assert.Contains(t, injected, "CUDA_INJECTION64_PATH=/usr/lib/kernhes/libkernhes.so")
		assert.Regexp(t, `PYTHONPATH=/usr/lib/kernhes/kernhes-[0-9.]+-py3-none-any\.whl`, injected)
		m.must("usermod", "--append", "--groups", "kernhes-engines", "engine")
		m.must("usermod", "--append", "--groups", "kernhes", "reader")
	})

	m.step("unit", func(t *testing.T) {
		unit := "/usr/lib/systemd/system/kernhes.service"
		assert.Empty(t, m.must("systemd-analyze", "verify", "--man=no", unit))
		m.must("systemd-analyze", "security", "--offline=yes", "--threshold=25", "--no-pager", unit) // 2.5
		status, err := os.ReadFile(m.path("/proc/" + m.pid() + "/status"))
		if err != nil { // /proc is mounted in the machine's own namespace
			status = []byte(m.must("cat", "/proc/"+m.pid()+"/status"))
		}
		for _, line := range []string{`CapEff:\s0000000000000000`, `CapBnd:\s0000000000000000`, `NoNewPrivs:\s1`, `Seccomp:\s2`} {
			assert.Regexp(t, regexp.MustCompile(line), string(status))
		}
		ports := m.must("ss", "-Hltn")
		for line := range strings.Lines(ports) {
			assert.Regexp(t, `127\.0\.0\.1:|\[::1\]:`, strings.Fields(line)[3], "a port that other hosts reach")
		}
		assert.GreaterOrEqual(t, len(strings.Split(ports, "\n")), 5)
	})

	want := solo(t)
	var played []string // runs that are whole in the archive
	m.step("play", func(t *testing.T) {
		m.play("engine", "whole", "max").end(0)
		assert.Contains(t, get(page), `"sessions_ended_bye":1`)
		eventually(t, "the metrics have all steps", func() bool { return steps("whole") == want.Steps })
		assert.Zero(t, sum(get(metrics), "kern_trace_dropped_records_total", `kern_run="whole"`))
		rows, distinct := m.kernels("whole", want.Kernels)
		assert.Equal(t, want.Kernels, rows)
		assert.Equal(t, want.Kernels, distinct)
		assert.Contains(t, m.must("kernhes", "table"), "whole")
		played = append(played, "whole")
	})

	m.step("strangers", func(t *testing.T) {
		connect := func(user string) string {
			out, err := m.as(user, "perl", "-MSocket", "-e", `socket(S, PF_UNIX, SOCK_STREAM, 0) or die;
				print connect(S, pack_sockaddr_un($ARGV[0])) ? "connected" : $!`, socket)
			require.NoError(t, err, out)
			return out
		}
		read := func(user, file string) string {
			out, _ := m.as(user, "head", "-c", "4", file)
			return out
		}
		file := m.must("sh", "-c", "ls "+archive+"/k-*.parquet")
		assert.Equal(t, "connected", connect("engine"))
		assert.Equal(t, "Permission denied", connect("outsider"))
		assert.Equal(t, "Permission denied", connect("reader"))
		assert.Equal(t, "PAR1", read("reader", file))
		assert.Contains(t, read("engine", file), "Permission denied")
		assert.Contains(t, read("outsider", file), "Permission denied")
		assert.Contains(t, read("engine", "/etc/kernhes/config.yaml"), "Permission denied")
		assert.Empty(t, m.must("find", "/var/lib/kernhes", "-perm", "/007"), "others may do something")
		m.play("outsider", "refused", "max", "KERNHES_LINGER_MS=500").end(3)
		assert.NotContains(t, get(page), `"refused"`)
	})

	m.step("killed", func(t *testing.T) {
		p := m.play("engine", "killed", "0.5")
		kills := 0
		for ; kills < 3; kills++ {
			eventually(t, "a step is complete", func() bool { return live("killed") > 0 || p.over() })
			if p.over() {
				break // a busy machine restarts slowly
			}
			was := m.pid()
			m.must("kill", "-9", was)
			eventually(t, "systemd starts another", func() bool { pid := m.pid(); return pid != "0" && pid != was })
			m.ready()
		}
		p.end(0)
		assert.Positive(t, kills)
		_, distinct := m.kernels("killed", want.Kernels)
		assert.Equal(t, want.Kernels, distinct, "what was not acknowledged is sent again")
		played = append(played, "killed")
	})

	m.step("engine and collector killed", func(t *testing.T) {
		p := m.play("engine", "cut", "0.5")
		eventually(t, "a step is complete", func() bool { return live("cut") > 0 })
		m.must("pkill", "-9", "--uid", "engine")
		<-p.ended
		eventually(t, "the engine counts as gone", func() bool { return strings.Contains(get(page), `"sessions_ended_gone":1`) })
		m.must("kill", "-9", m.pid())
		m.ready()
		m.play("engine", "after", "max").end(0)
		rows, _ := m.kernels("after", want.Kernels)
		assert.Equal(t, want.Kernels, rows)
	})

	m.step("upgrade", func(t *testing.T) {
		const line = "# ours"
		m.must("sh", "-c", "echo '"+line+"' >>/etc/kernhes/config.yaml")
		p := m.play("engine", "upgraded", "0.5")
		eventually(t, "a step is complete", func() bool { return live("upgraded") > 0 })
		was := m.pid()
		m.must("dpkg", "-i", m.has(deb(two, second)))
		assert.NotEqual(t, was, m.pid(), "the collector was restarted")
		m.ready()
		assert.Equal(t, second, m.must("kernhes", "version"))
		assert.Contains(t, m.must("tail", "-1", "/etc/kernhes/config.yaml"), line)
		assert.Equal(t, "640 root kernhes", m.must("stat", "-c", "%a %U %G", "/etc/kernhes/config.yaml"))
		p.end(0)
		// The step that was open when the collector ended may be there twice: what came of it, and whole.
		_, distinct := m.kernels("upgraded", want.Kernels)
		assert.Equal(t, want.Kernels, distinct)
		for _, run := range played {
			_, distinct := m.kernels(run, want.Kernels)
			assert.Equal(t, want.Kernels, distinct, run)
		}
	})

	m.step("remove", func(t *testing.T) {
		m.must("dpkg", "-r", "kernhes")
		_, err := m.as("root", "systemctl", "is-active", "kernhes.service")
		assert.Error(t, err)
		assert.NoFileExists(t, m.path("/usr/bin/kernhes"))
		assert.FileExists(t, m.path("/etc/kernhes/config.yaml"))
		assert.NotEmpty(t, m.must("ls", archive))
	})

	m.step("purge", func(t *testing.T) {
		m.must("dpkg", "-P", "kernhes")
		assert.Equal(t, before, m.state())
	})
}

// TestPackageWithoutSystemd installs where no systemd runs, as in a container.
func TestPackageWithoutSystemd(t *testing.T) {
	one, again := buildFirst(t), build(t, first)
	do(t, "diff", "--recursive", one, again) // equal sources give equal bytes
	sums := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	sums.Dir = one
	out, err := sums.CombinedOutput()
	require.NoError(t, err, "%s", out)

	m := newMachine(t)
	before := m.state()
	m.must("dpkg", "-i", m.has(deb(one, first)))
	assert.Equal(t, "2750 kernhes kernhes-engines", m.must("stat", "-c", "%a %U %G", "/run/kernhes"))
	assert.Contains(t, m.must("otelcol-kernhes", "components"), "kernparquet")
	assert.Empty(t, m.must("otelcol-kernhes", "validate", "--config", "/etc/kernhes/config.yaml"))
	validated(t, m)
	image(t, m)
	m.must("dpkg", "-P", "kernhes")
	assert.Equal(t, before, m.state())
}

// noise is what installing any package writes, and what systemd and its journal write.
var noise = regexp.MustCompile(`^/(var/lib/dpkg|var/log|var/lib/systemd|var/cache|etc/machine-id|etc/\.pwd\.lock|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$)`)

// state is what differs from the root below, and the users: what a purge has to leave as it was.
func (m *machine) state() (all []string) {
	m.t.Helper()
	require.NoError(m.t, filepath.WalkDir(m.upper, func(path string, d fs.DirEntry, err error) error {
		if path = strings.TrimPrefix(path, m.upper); !d.IsDir() && !noise.MatchString(path) {
			all = append(all, path)
		}
		return err
	}))
	for _, dir := range []string{"/etc/kernhes", "/var/lib/kernhes", "/run/kernhes", "/usr/lib/kernhes", "/usr/share/kernhes", "/usr/share/doc/kernhes"} {
		if _, err := os.Stat(m.path(dir)); err == nil {
			all = append(all, dir)
		}
	}
	for _, database := range []string{"passwd", "group", "shadow"} {
		for line := range strings.Lines(m.must("getent", database)) {
			if name, _, _ := strings.Cut(line, ":"); strings.Contains(line, "kernhes") {
				all = append(all, database+" "+name)
			}
		}
	}
	slices.Sort(all)
	return all
}
