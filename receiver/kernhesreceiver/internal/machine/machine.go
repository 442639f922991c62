// Package machine tells how much memory the collector may use.
package machine

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// fallback is what is taken where no limit is known, in bytes.
const fallback = 4 << 30

// Memory is how much memory this process may use, in bytes: the least of GOMEMLIMIT, its cgroup's and the host's.
func Memory() int64 { return min(memory("/"), debug.SetMemoryLimit(-1)) }

// memory is the least of what the files of a host and of this process's cgroup say.
func memory(root string) int64 {
	least := int64(math.MaxInt64)
	lower := func(n int64) {
		if n > 0 {
			least = min(least, n)
		}
	}
	read := func(path string) string {
		text, _ := os.ReadFile(filepath.Join(root, path)) // what is not there says nothing
		return string(text)
	}
	for line := range strings.Lines(read("proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			lower(number(fields[1]) << 10)
		}
	}
	for line := range strings.Lines(read("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		// A limit may stand on any level above. In a container the path may be the host's, and only the top is there.
		for at := parts[2]; ; at = filepath.Dir(at) {
			switch {
			case parts[0] == "0":
				lower(number(read(filepath.Join("sys/fs/cgroup", at, "memory.max"))))
			case strings.Contains(","+parts[1]+",", ",memory,"):
				lower(number(read(filepath.Join("sys/fs/cgroup/memory", at, "memory.limit_in_bytes"))))
			}
			if at == "/" || at == "." {
				break
			}
		}
	}
	if least == math.MaxInt64 {
		return fallback
	}
	return least
}

// number reads a count of bytes; 0: it is none, as "max".
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n > 1<<60 { // cgroup v1 says "no limit" so
		return 0
	}
	return n
}
