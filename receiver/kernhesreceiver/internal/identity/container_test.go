package identity

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestContainerOf reads cgroups as runtimes write them.
func TestContainerOf(t *testing.T) {
	const (
		pod   = "2d4d9ed5-1c5b-4a0e-9f77-0f3a8d6c1b2e"
		slice = "2d4d9ed5_1c5b_4a0e_9f77_0f3a8d6c1b2e"
	)
	id := strings.Repeat("3f2a", 16)
	outer := strings.Repeat("91c0", 16)
	for _, c := range []struct {
		name, text string
		want       Container
	}{
		{"no container, v2", "0::/user.slice/user-1000.slice/session-3.scope\n", Container{}},
		{"own namespace, v2", "0::/\n", Container{}},
		{"containerd, systemd, v2",
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, pod}},
		{"containerd, guaranteed, v2",
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, pod}},
		{"containerd, cgroupfs, v1",
			"12:memory:/kubepods/besteffort/pod" + pod + "/" + id + "\n11:cpu,cpuacct:/kubepods/besteffort/pod" + pod + "/" + id + "\n1:name=systemd:/kubepods/besteffort/pod" + pod + "/" + id + "\n",
			Container{id, pod}},
		{"containerd as a service, v1",
			"5:devices:/system.slice/containerd.service/kubepods-burstable-pod" + slice + ".slice:cri-containerd:" + id + "\n", Container{id, pod}},
		{"cri-o, v2",
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + id + ".scope/container\n", Container{id, pod}},
		{"cri-o's monitor",
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-conmon-" + id + ".scope\n", Container{"", pod}},
		{"docker, systemd, v2", "0::/system.slice/docker-" + id + ".scope\n", Container{id, ""}},
		{"docker, cgroupfs, v1", "10:cpuset:/docker/" + id + "\n0::/system.slice/containerd.service\n", Container{id, ""}},
		{"podman", "0::/machine.slice/libpod-" + id + ".scope/container\n", Container{id, ""}},
		{"kind: a node that is a container",
			"0::/docker/" + outer + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n",
			Container{id, pod}},
		{"a static pod",
			"0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id + "\n", Container{id, "0123456789abcdef0123456789abcdef"}},
		{"a user's folder that looks alike", "0::/user.slice/pod" + pod + "/x\n", Container{}},
		{"a longer number", "0::/docker/" + id + "0\n", Container{}},
		{"torn", "12:memory", Container{}},
		{"nothing", "", Container{}},
	} {
		assert.Equal(t, c.want, ContainerOf(c.text), c.name)
	}
}

// TestContainerOfProcess reads the cgroup of this process.
func TestContainerOfProcess(t *testing.T) {
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	got, err := ContainerOfProcess(int32(os.Getpid()))
	require.NoError(t, err)
	assert.Equal(t, ContainerOf(string(text)), got)
	_, err = ContainerOfProcess(0)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzContainerOf(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-pod2d4d9ed5_1c5b_4a0e_9f77_0f3a8d6c1b2e.slice/cri-containerd-" + strings.Repeat("0a", 32) + ".scope\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := ContainerOf(text)
		if c.ID != "" && (len(c.ID) != 64 || strings.Trim(c.ID, "0123456789abcdef") != "" || !strings.Contains(text, c.ID)) {
			t.Errorf("container %q", c.ID)
		}
		if c.Pod != "" && len(c.Pod) != 36 && len(c.Pod) != 32 {
			t.Errorf("pod %q", c.Pod)
		}
	})
}
