package step

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGroupsTellShapesApartAndNotTheirHashes: ranks of different groups have equal hashes for equal work, and each its own shape.
func TestGroupsTellShapesApartAndNotTheirHashes(t *testing.T) {
	table := NewTable(10)
	of := func(group string, bytes uint64) *Shape {
		s, _ := intern(table, []Position{{Name: "gemm"}, {Name: "ncclDevKernel_AllReduce", Group: group, Bytes: bytes}}...)
		return s
	}
	a, b, again := of("nccl:a", 4096), of("nccl:b", 4096), of("nccl:a", 4096)
	require.Same(t, a, again)
	require.NotSame(t, a, b)
	require.Equal(t, "nccl:b", b.Positions[1].Group)
	require.Equal(t, a.Hash, b.Hash)
	require.NotEqual(t, a.Hash, of("nccl:a", 8192).Hash)
	moved, _ := intern(table, []Position{{Name: "gemm", Group: "nccl:a"}, {Name: "ncclDevKernel_AllReduce", Bytes: 4096}}...)
	require.NotSame(t, a, moved, "the group is of another position")
	require.Equal(t, a.Hash, moved.Hash)
}
