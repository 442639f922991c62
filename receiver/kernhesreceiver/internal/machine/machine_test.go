package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheLeastCounts(t *testing.T) {
	check := func(want int64, files ...string) {
		t.Helper()
		root := t.TempDir()
		for i := 0; i < len(files); i += 2 {
			path := filepath.Join(root, files[i])
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(files[i+1]), 0o600))
		}
		assert.Equal(t, want, memory(root))
	}
	check(fallback)
	meminfo := []string{"proc/meminfo", "MemTotal:       2000 kB\nMemFree: 7 kB\n"}
	check(2000<<10, meminfo...)
	v2 := append(meminfo, "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "max\n")
	check(2000<<10, v2...)
	check(1<<20, append(v2, "sys/fs/cgroup/a/memory.max", "1048576\n")...)
	check(1<<19, append(v2, "sys/fs/cgroup/memory.max", "524288\n")...)
	v1 := append(meminfo, "proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/1\n")
	check(1<<18, append(v1, "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "262144\n")...)
	check(2000<<10, append(v1, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")...)
	assert.Positive(t, Memory())
}
