package session

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// placed is an engine of which only the places count.
type placed struct {
	Account
	all     []engine.Place
	version int
}

func (p *placed) Places() ([]engine.Place, int) { return p.all, p.version }

// orders are the commands and first three arguments of CONTROL frames: 16 bytes of header, then u32, u32, 4 × u64.
func orders(b []byte) (all [][4]uint64) {
	for ; len(b) > 0; b = b[16+40:] {
		at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[16+8*i:]) }
		all = append(all, [4]uint64{at(0), at(1), at(2), at(3)})
	}
	return all
}

// TestTheShimIsToldOfPlacesAndOfTheirChanges, and on a new connection of all that there are.
func TestTheShimIsToldOfPlacesAndOfTheirChanges(t *testing.T) {
	e := &placed{}
	var first told
	require.Empty(t, first.tell(e))
	e.all, e.version = []engine.Place{{Domain: 0, Thread: 7, Depth: 1}, {Domain: 3, Thread: 8, Depth: 2}}, 1
	require.Equal(t, [][4]uint64{{4, 0, 7, 1}, {4, 3, 8, 2}}, orders(first.tell(e)))
	require.Empty(t, first.tell(e))
	e.all, e.version = []engine.Place{{Domain: 0, Thread: 7, Depth: 4}, {Domain: 5, Thread: 8, Depth: 2}}, 2
	require.Equal(t, [][4]uint64{{4, 3, 8, 0}, {4, 0, 7, 4}, {4, 5, 8, 2}}, orders(first.tell(e)))
	var second told
	require.Equal(t, [][4]uint64{{4, 0, 7, 4}, {4, 5, 8, 2}}, orders(second.tell(e)))
}
