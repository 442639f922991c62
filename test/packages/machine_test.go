//go:build packages

package packages_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds what a test waits for; only what does not come takes so long.
const patience = 2 * time.Minute

// A machine is a root of its own, in which systemd may run.
type machine struct {
	t     testing.TB
	root  string // its root, as this process sees it
	upper string // what differs from the root below
	init  int    // process id of its systemd, or 0
}

// newMachine lays an overlay over the root; what is at the top of the tree is in /mnt.
func newMachine(t testing.TB) *machine {
	t.Helper()
	base := os.Getenv("KERNHES_PACKAGES_ROOT")
	if base == "" {
		base = "/"
	}
	// Not t.TempDir, which only root may enter.
	dir, err := os.MkdirTemp("", "kernhes-packages-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	m := &machine{t: t, root: filepath.Join(dir, "root"), upper: filepath.Join(dir, "upper")}
	do(t, "mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dir)
	for _, name := range []string{"root", "upper", "work"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	do(t, "mount", "-t", "overlay", "-o", "lowerdir="+base+",upperdir="+m.upper+",workdir="+dir+"/work", "overlay", m.root)
	t.Cleanup(func() {
		m.stop()
		do(t, "umount", "--recursive", "--lazy", dir)
		require.NoError(t, os.Remove(dir))
	})
	for _, tmpfs := range []string{"run", "tmp", "dev", "mnt"} {
		mode := map[string]string{"tmp": "1777"}[tmpfs]
		if mode == "" {
			mode = "755"
		}
		do(t, "mount", "-t", "tmpfs", "-o", "mode="+mode, "tmpfs", m.path(tmpfs))
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		require.NoError(t, os.WriteFile(m.path("dev/"+device), nil, 0o666))
		do(t, "mount", "--bind", "/dev/"+device, m.path("dev/"+device))
	}
	for _, dir := range []string{"pts", "shm", "mqueue", "hugepages"} { // PrivateDevices wants them
		require.NoError(t, os.Mkdir(m.path("dev/"+dir), 0o755))
	}
	do(t, "mount", "-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620,gid=5", "devpts", m.path("dev/pts"))
	require.NoError(t, os.Symlink("pts/ptmx", m.path("dev/ptmx")))
	for _, name := range []string{"bin", "testdata"} {
		require.NoError(t, os.Mkdir(m.path("mnt/"+name), 0o755))
		do(t, "mount", "--bind", "-o", "ro", "../../"+name, m.path("mnt/"+name))
	}
	do(t, "mount", "-t", "sysfs", "-o", "ro", "sysfs", m.path("sys"))
	do(t, "mount", "-t", "proc", "-o", "ro", "proc", m.path("proc")) // of the processes here; systemd gets its own
	return m
}

// boot starts systemd up to sysinit.target, without the units that would reach the kernel below.
func (m *machine) boot() {
	m.t.Helper()
	for _, unit := range []string{"systemd-sysctl", "systemd-modules-load", "systemd-remount-fs", "systemd-udevd", "systemd-timesyncd"} {
		require.NoError(m.t, os.Symlink("/dev/null", m.path("etc/systemd/system/"+unit+".service")))
	}
	require.NoError(m.t, os.WriteFile(m.path("etc/machine-id"), nil, 0o444))
	group := m.cgroup()
	// The namespaces of processes and cgroups begin in a process that is in the cgroup already.
	command := exec.Command("unshare", "--mount", "--pid", "--cgroup", "--fork", "--kill-child", "sh", "-c", `
		set -e
		cd "$1"
		mount -t proc proc proc
		mount --bind -o ro proc/sys proc/sys
		mount -t cgroup2 cgroup2 sys/fs/cgroup
		exec chroot . /usr/bin/env -i container=kernhes PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		  /lib/systemd/systemd --log-target=journal --show-status=0 --unit=sysinit.target`, "boot", m.root)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Pdeathsig: syscall.SIGKILL}
	require.NoError(m.t, command.Start())
	m.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		removeCgroup(m.t, group.Name())
		_ = group.Close()
	})
	eventually(m.t, "systemd is up", func() bool {
		if m.init == 0 {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", command.Process.Pid))
			m.init, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		}
		if m.init == 0 {
			return false
		}
		out, _ := m.command("root", "systemctl", "is-system-running").Output()
		return strings.TrimSpace(string(out)) == "running"
	})
}

// cgroup makes a cgroup for the machine.
func (m *machine) cgroup() *os.File {
	m.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(m.t, err)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			dir, err := os.MkdirTemp(f[1], "kernhes-packages-")
			require.NoError(m.t, err)
			group, err := os.Open(dir)
			require.NoError(m.t, err)
			return group
		}
	}
	m.t.Fatal("no cgroup v2 is mounted")
	return nil
}

// removeCgroup removes a cgroup and those in it, which end with their processes.
func removeCgroup(t testing.TB, dir string) {
	eventually(t, "the cgroups are empty", func() bool {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0; i-- {
			_ = os.Remove(all[i])
		}
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

// step runs a part of the story; the parts after one that failed have no sense.
func (m *machine) step(name string, part func(t *testing.T)) {
	whole := m.t.(*testing.T)
	if whole.Failed() {
		return
	}
	whole.Run(name, func(t *testing.T) {
		m.t = t
		defer func() { m.t = whole }()
		part(t)
	})
}

// stop ends the machine's processes.
func (m *machine) stop() {
	if m.init != 0 {
		_ = syscall.Kill(m.init, syscall.SIGKILL)
		m.init = 0
	}
}

// path is where a path of the machine lies for this process.
func (m *machine) path(path string) string { return filepath.Join(m.root, path) }

// command is a program as a user of the machine, with nothing of this process's environment.
func (m *machine) command(user string, args ...string) *exec.Cmd {
	into := []string{"chroot", m.root}
	if m.init != 0 {
		into = []string{"nsenter", "--target", strconv.Itoa(m.init), "--mount", "--pid", "--root", "--wd", "--"}
	}
	into = append(into, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive")
	if user != "root" {
		into = append(into, "setpriv", "--reuid="+user, "--regid="+user, "--init-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
	}
	into = append(into, args...)
	return exec.Command(into[0], into[1:]...)
}

// as runs a program to its end and gives what it printed.
func (m *machine) as(user string, args ...string) (string, error) {
	out, err := m.command(user, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs a program as root that has to succeed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	out, err := m.as("root", args...)
	require.NoError(m.t, err, "%v: %s", args, out)
	return out
}

// has copies a file of this machine to /tmp there and gives its path.
func (m *machine) has(file string) string {
	m.t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(m.t, err)
	path := "/tmp/" + filepath.Base(file)
	require.NoError(m.t, os.WriteFile(m.path(path), text, 0o644))
	return path
}

// do runs a program here that has to succeed.
func do(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, bytes.TrimSpace(out))
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
