package identity

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// A Container is where a process runs. Fields are empty where that is not known.
type Container struct {
	ID  string // 64 hexadecimal digits
	Pod string // UID of the Kubernetes pod
}

var (
	// An id ends a part of the path, perhaps as cri-containerd-ID.scope. crio-conmon-ID.scope is the monitor, not the container.
	containerID = regexp.MustCompile(`(?:^|[/:]|[/:][a-z-]*-)([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
	podUID      = regexp.MustCompile(`kubepods.*[/-]pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:[/:.]|$)`)
)

const monitor = "conmon-"

// ContainerOf reads the text of /proc/PID/cgroup, of cgroup v1 or v2. Of nested containers it gives the innermost.
func ContainerOf(cgroup string) (c Container) {
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		path := parts[2]
		if at := podUID.FindStringSubmatch(path); at != nil && c.Pod == "" {
			c.Pod = strings.ReplaceAll(at[1], "_", "-")
		}
		if id := innermost(path); id != "" && c.ID == "" {
			c.ID = id
		}
	}
	return c
}

func innermost(path string) (id string) {
	for path != "" {
		at := containerID.FindStringSubmatchIndex(path)
		if at == nil {
			return id
		}
		if !strings.HasSuffix(path[:at[2]], monitor) {
			id = path[at[2]:at[3]]
		}
		path = path[at[3]:]
	}
	return id
}

// maxCgroup bounds the bytes that are read of a process's cgroup.
const maxCgroup = 1 << 16

// ContainerOfProcess is the container of a process of this host.
func ContainerOfProcess(pid int32) (Container, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Container{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCgroup))
	return ContainerOf(string(text)), err
}
